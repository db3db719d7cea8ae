"""Prompts as the policy saw them: whole, with the special tokens of templates and tokenizers."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr import models
from gfcr.errors import ConfigError, GfcrError
from gfcr.experiment.prepared import speller
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.looked_at import LookedAt
from gfcr.tracking.names import DIGEST

if TYPE_CHECKING:
    from gfcr.leaderboard import Leaderboard
    from gfcr.leaderboard.shown_rollouts import ShownRun

_MODEL = f"{DIGEST}model".removeprefix("gfcr.")
"""What a row says of runs whose engine has a model; other engines' tokens are characters."""


def of_run(folder: Path, rollouts: Collection[LookedAt]) -> list[LookedAt]:
    """Returns rollouts of a run with their prompts' text as the policy saw it.

    Raises:
        GfcrError: the folder has no card, or the run's model is not on this machine.
    """
    card = RunFolder(folder).card()
    engine: Any = card.spec["engine"]
    if (alphabet := engine.get("alphabet")) is not None:
        return _told(rollouts, text=speller(None, alphabet=str(alphabet)))
    return _told(rollouts, text=_of_model(str(card.spec["model"])))


def of_board(board: "Leaderboard", *, uri: str) -> "dict[str, ShownRun]":
    """Returns a few rollouts of each arm; their prompts say why, where they cannot be whole."""
    from gfcr.leaderboard import shown_rollouts

    found = shown_rollouts.of_store(board, uri=uri)
    for row in board.rows:
        if row.arm in found and _MODEL in row.provenance:
            try:
                text = _of_model(row.provenance["model"])
            except GfcrError as error:
                text = partial("(Without special tokens: {})\n{.text}".format, error)
            run = found[row.arm]
            found[row.arm] = replace(run, rollouts=_told(run.rollouts, text=text))
    return found


def _of_model(model: str) -> Callable[[Any], str]:
    if (folder := models.here(model)) is None:
        raise ConfigError(f"the model {model} is not on this machine.")
    return speller(folder)


def _told(rollouts: Collection[LookedAt], *, text: Callable[[Any], str]) -> list[LookedAt]:
    told = [
        (e, e.rollout, replace(e.rollout.prompt, text=text(e.rollout.prompt))) for e in rollouts
    ]
    return [replace(e, rollout=replace(rollout, prompt=prompt)) for e, rollout, prompt in told]
