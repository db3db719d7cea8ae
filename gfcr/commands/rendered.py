"""Prompts as the policy saw them: whole, with the special tokens of templates and tokenizers."""

from collections.abc import Callable, Collection
from dataclasses import replace
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

_MODEL = f"{DIGEST}model"
"""Tag of a run whose engine has a model; other engines' tokens are characters."""


def of_run(folder: Path, rollouts: Collection[LookedAt]) -> list[LookedAt]:
    """Returns rollouts of a run with their prompts' text as the policy saw it.

    Raises:
        GfcrError: the folder has no card, or the run's model is not on this machine.
    """
    card = RunFolder(folder).card()
    if _MODEL in card.tags:
        return _told(rollouts, text=_whole(str(card.spec["model"])))
    engine: Any = card.spec["engine"]
    spell = speller(None, alphabet=str(engine["alphabet"]))
    return _told(rollouts, text=lambda prompt: spell(prompt.tokens))


def of_board(board: "Leaderboard", *, uri: str) -> "dict[str, ShownRun]":
    """Returns a few rollouts of each arm; their prompts say why, where they cannot be whole."""
    from gfcr.leaderboard import shown_rollouts

    found = shown_rollouts.of_store(board, uri=uri)
    for row in board.rows:
        if row.arm in found and _MODEL.removeprefix("gfcr.") in row.provenance:
            try:
                text = _whole(row.provenance["model"])
            except GfcrError as error:
                text = f"(Without special tokens: {error})\n{{.text}}".format
            run = found[row.arm]
            found[row.arm] = replace(run, rollouts=_told(run.rollouts, text=text))
    return found


def _whole(model: str) -> Callable[[Any], str]:
    """Returns a function for a prompt's text by a model; none is made or downloaded."""
    if (folder := models.here(model)) is None:
        raise ConfigError(f"the model {model} is not on this machine.")
    spell = speller(folder)
    return lambda prompt: spell(prompt.tokens)


def _told(rollouts: Collection[LookedAt], *, text: Callable[[Any], str]) -> list[LookedAt]:
    """Returns rollouts with another text of their prompts."""
    prompts = [(each, each.rollout.prompt) for each in rollouts]
    told = [(each, replace(prompt, text=text(prompt))) for each, prompt in prompts]
    return [replace(e, rollout=replace(e.rollout, prompt=prompt)) for e, prompt in told]
