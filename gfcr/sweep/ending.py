"""What limits the comparisons of a study that has ended."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from gfcr.doctor.diagnosis import diagnose, history_of
from gfcr.errors import CheckpointError
from gfcr.sweep.study import Study, Trial, TrialEnd
from gfcr.tracking.folder import RunFolder


def problems(ends: Sequence[TrialEnd]) -> list[TrialEnd]:
    """Returns the trials that cannot be compared although they should have finished."""
    return [e for e in ends if e.problem is not None and e.status != "stopped"]


def remarks(ends: Sequence[TrialEnd]) -> list[str]:
    """Returns what changed since trials finished, what they warned of, what the doctor finds.

    Warnings that differ by numbers alone share a line.
    """
    names = sorted({name for e in ends for name in e.result.get("edited", ())})
    told = [f"{n} was edited since finished trials ran: --fresh runs them again." for n in names]
    found: dict[str, list[str]] = {}
    for end in ends:
        for words in end.result.get("warnings", ()):
            line = words.partition("\n")[0]
            found.setdefault(re.sub(r"\d", "", line), []).append(f"{end.trial.name}: {line}")
    for first, *others in found.values():
        told.append(first + (f" Likewise in {len(others)} more." if others else ""))
    return [*told, *_diagnosed([e for e in ends if e.status in ("finished", "cached")])]


def _diagnosed(ends: Sequence[TrialEnd]) -> list[str]:
    """Returns a line with the doctor's rules that find something, and in how many trials each."""
    sick = [(end.trial, rules) for end in ends if (rules := _rules_of(end.trial))]
    if not sick:
        return []
    counts = Counter(rule for _, rules in sick for rule in rules)
    told = ", ".join(f"{rule} in {num}" for rule, num in counts.most_common())
    first = shlex.quote(str(sick[0][0].folder))
    return [f"Of {len(ends)} trials the doctor finds {told}: `gfcr doctor {first}` says more."]


def _rules_of(trial: Trial) -> list[str]:
    with suppress(CheckpointError):  # a damaged record is the trial's problem already
        return [found.rule for found in diagnose(history_of(RunFolder(trial.folder)))]
    return []


def notes(study: Study, *, ends: Sequence[TrialEnd]) -> list[str]:
    """Returns what limits the study's comparisons, a line each."""
    lines: list[str] = []
    if len(study.seeds) == 1:
        lines.append("One seed: no interval, and no verdict but `inconclusive`.")
    broken = Counter(e.trial.config.name for e in problems(ends))
    # A search's study has its baseline alone, and its ends have the candidates too.
    arms = list(dict.fromkeys(e.trial.config.name for e in ends))
    gone = [arm for arm in arms if broken[arm] == len(study.seeds)]
    lines += [f"{arm} has no run that can be compared: it is in no table." for arm in gone]
    if study.baseline in broken:
        lines.append(
            f"The baseline {study.baseline} lacks seeds: no arm has a rank or a verdict before "
            "they are run."
        )
    if study.search is not None:
        lines.append(
            "Candidates were chosen by these very scores: run the best again, with other seeds, "
            "before they are called better."
        )
    lines += remarks(ends)
    stopped = list(dict.fromkeys(e.trial.config.name for e in ends if e.status == "stopped"))
    if stopped:
        lines.append(
            f"Stopped early and compared with nothing: {', '.join(stopped)}. Each counts among the "
            f"{len(arms) - 1} comparisons that p-values are corrected for, as p = 1."
        )
    return lines
