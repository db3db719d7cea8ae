"""Rehearses a run: all the checks of a start, without starting it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from gfcr import models
from gfcr.config import Experiment
from gfcr.errors import GfcrError
from gfcr.experiment.check import check
from gfcr.experiment.prepared import prepare
from gfcr.experiment.resolved import Resolved, resolve
from gfcr.experiment.resumed import card_to_resume, check_same
from gfcr.experiment.size import size_of
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import refuse_if_locked, refuse_if_running
from gfcr.train import checkpoint

Would: TypeAlias = Literal["start", "start over", "resume", "be shown, finished", "be refused"]


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The outcome that one run would have if it were started now."""

    would: Would
    detail: str
    """The update it would resume from, why it would be refused, and what was not checked."""
    folder: Path
    data: str = ""
    """What there is to train on and to evaluate on; empty where it was not looked at."""
    first: str = ""
    """The first prompt as the policy would see it, with its tokens."""
    size: str = ""
    """The memory and disk that its model takes; empty where it has none."""


def rehearse(
    config: Experiment, *, fresh: bool, accepted: bool = False, prompts: bool = True
) -> Rehearsal:
    """Returns what a run would do; nothing is written and no engine is started.

    A model that is not on this machine yet is neither made nor downloaded, and then the prompts are
    not checked.

    Args:
        config: the experiment.
        fresh: whether it would start over.
        accepted: whether it would resume although prompts, the model or code have changed.
        prompts: whether to make and check those of a run that starts, which other seeds have too.

    Raises:
        ConfigError: the experiment cannot be resolved: no run of it has a folder.
    """
    resolved = resolve(config)
    try:
        check(resolved)
        refuse_if_locked(resolved.folder)
        refuse_if_running(resolved.folder)
        found = _standing(resolved, fresh=fresh)
        if found.would == "be shown, finished" or not (prompts or found.would == "resume"):
            return found
        return _with_prompts(found, resolved, accepted=accepted)
    except GfcrError as error:
        return Rehearsal(would="be refused", detail=str(error), folder=resolved.folder)


def _with_prompts(found: Rehearsal, resolved: Resolved, *, accepted: bool) -> Rehearsal:
    """Checks the prompts and tells of them, or why they could not be checked."""
    config, needs = resolved.config, resolved.engine.needs_model
    model = models.here(config.model) if needs else config.model
    if model is None:
        why = f"prompts not checked: the model {config.model} would be made or downloaded first"
        return replace(found, detail="; ".join(filter(None, (found.detail, why))))
    prepared = prepare(resolved, model=str(model))
    size = size_of(resolved, model=str(model))
    told = replace(found, data=prepared.about, first=prepared.first, size=size)
    if found.would != "resume":
        return told
    held = card_to_resume(RunFolder(resolved.folder))
    given = prepared.tags(resolved, model=str(model))
    check_same(resolved, given=given, held=held, accepted=accepted)
    return told


def _standing(resolved: Resolved, *, fresh: bool) -> Rehearsal:
    records = RunFolder(resolved.folder)
    again = "if no stopping rule stops it again" if records.status == "stopped" else ""
    start = Rehearsal(would="start", detail=again, folder=resolved.folder)
    if fresh and resolved.folder.exists():
        aside = f"keeps {resolved.folder} under another name"
        return replace(start, would="start over", detail=aside)
    if (records.result() or {}).get("status") == "finished":
        return replace(start, would="be shown, finished")
    whole = checkpoint.newest_whole(resolved.folder / "checkpoints", read=checkpoint.load)
    if whole is None:
        return start
    left = f"after update {checkpoint.step_of(whole[0])}"
    return replace(start, would="resume", detail=", ".join(filter(None, (left, again))))
