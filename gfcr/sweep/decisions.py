"""Records the decisions of a stopping rule in the study's `decisions.jsonl` and in its runs."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfcr import experiment, registry
from gfcr.errors import ConfigError
from gfcr.experiment import ending
from gfcr.experiment.source import Pause
from gfcr.search.base import Scores
from gfcr.sweep.study import Study, Trial
from gfcr.tracking import ended
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import locked

STOPPED = "gfcr.stopped"
"""Tag of a run that was stopped early; its value says why."""
_PATIENCE_S = 60.0
"""Seconds to wait for another sweep of the study that is running the trial."""


def file_of(study: Study) -> Path:
    """Returns the file of a study's decisions."""
    return study.folder / "decisions.jsonl"


def write(
    study: Study,
    *,
    number: int,
    until: Pause | None,
    scores: Scores,
    reasons: Mapping[str, str],
) -> None:
    """Appends one line for each arm that was judged, see `append`."""
    assert study.stopping is not None
    for arm, by_seed in scores.items():
        line = {
            "rule": registry.spec("stopping", study.stopping),
            "round": number,
            "until": None if until is None else str(until),
            "metric": study.metric,
            "arm": arm,
            "scores": {str(seed): score for seed, score in by_seed.items()},
            "decision": "stopped" if arm in reasons else "kept",
            "why": reasons.get(arm, "baseline" if arm == study.baseline else ""),
        }
        append(study, line)


def append(study: Study, line: Mapping[str, Any]) -> None:
    """Appends one line with the time, unless the last one of the arm and round says the same."""
    known = [{k: v for k, v in old.items() if k != "time"} for old in read(study)]
    alike = [old for old in known if all(old.get(k) == line.get(k) for k in ("arm", "round"))]
    # What a search has found best stands at the end, also where more candidates changed nothing.
    if dict(line) not in (alike if "arm" in line else known)[-1:]:
        file = file_of(study)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = _whole(file)
        new = json.dumps({**line, "time": time.time()}) + "\n"
        with file.open("a", encoding="utf-8") as out:
            # A last line that a kill has cut short would damage the one that follows.
            out.truncate(len(text.encode()))
            out.write(new)


def read(study: Study) -> list[dict[str, Any]]:
    """Returns the decisions that `write` and `append` have written."""
    file = file_of(study)
    try:
        return [json.loads(line) for line in _whole(file).splitlines()]
    except ValueError as error:
        raise ConfigError(
            f"{file} is damaged ({error}): mend the line, or move the file away; the sweep then "
            "decides again, from the same scores."
        ) from error


def _whole(file: Path) -> str:
    """Returns the file's complete lines; a last one that was cut short is left out."""
    text = file.read_text("utf-8") if file.exists() else ""
    return text[: text.rfind("\n") + 1]


def give_up(trial: Trial, *, why: str) -> dict[str, Any]:
    """Marks a run as stopped, in its folder and in its store; returns its result.

    A finished run is marked too: its arm is compared over all of its seeds or not at all. Run again
    without the rule, a run resumes from its last checkpoint.
    """
    with locked(trial.folder, patience_s=_PATIENCE_S):
        resolved, folder = experiment.resolve(trial.config), RunFolder(trial.folder)
        # Which data, versions and cores a run was made with is known to its own record alone.
        card = folder.card() if folder.exists() else resolved.card()
        card = replace(card, tags={**card.tags, STOPPED: why})
        known = folder.result()
        if known is None:
            folder.create(card)
            known = ending.identity(resolved)
        complete = known.get("status") == "finished" or bool(known.get("complete"))
        result = {**known, "status": "stopped", "stopped": why, "complete": complete}
        # A sweep that is started again decides alike, and has nothing to write but in the store.
        if folder.status != "stopped" or known != result:
            # A new digest would hide that somebody had changed the result before.
            ended.check(folder)
            folder.create(card)
            # The digest of its last result would contradict this one, if it were killed in between.
            folder.set_status("running")
            ended.end(folder, status="stopped", result=result)
        resolved.tracker.start(folder.card(), folder=trial.folder)
        resolved.tracker.finish(status="stopped", result=result)
        return result
