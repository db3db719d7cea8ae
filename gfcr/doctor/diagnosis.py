"""Asks all rules of a run, when it has ended or while it is under way."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, final

from gfcr.doctor import rules
from gfcr.doctor.history import FEWEST, UPDATE, History
from gfcr.doctor.levers import fitting
from gfcr.doctor.rule import Finding, Rule
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import HELDOUT


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of asking all rules of a run."""

    arm: str
    seed: int
    updates: int
    findings: tuple[Finding, ...]
    silent: Mapping[str, float]
    """The figures of the rules that found nothing, by rule."""
    later: Mapping[str, int]
    """The rules that want more updates, and the update from which each can be asked."""
    unmeasured: tuple[str, ...]
    """The rules whose metrics the run did not log."""


@cache
def every() -> tuple[Rule, ...]:
    """Returns the rules of all modules of `gfcr.doctor.rules`, by name."""
    found: list[Rule] = []
    for module in pkgutil.iter_modules(rules.__path__, prefix=f"{rules.__name__}."):
        found += importlib.import_module(module.name).RULES
    return tuple(sorted(found, key=attrgetter("name")))


def diagnose(history: History) -> tuple[Finding, ...]:
    """Returns the findings without levers, the one furthest beyond its limit first."""
    found = [
        Finding(
            rule=rule.name,
            stage=rule.stage,
            cell=rule.cell,
            update=history.lines[-1][0],
            figure=figure,
            limit=rule.limit,
            says=rule.says.format(figure=figure),
        )
        for rule, figure in figures(history).items()
        if figure >= rule.limit
    ]
    return tuple(sorted(found, key=lambda finding: -finding.figure / finding.limit))


def treated(findings: Iterable[Finding], *, spec: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Returns the findings with the levers that the run's experiment takes."""
    rules = {rule.name: rule for rule in every()}
    return tuple(
        replace(found, levers=fitting(rules[found.rule].levers(spec), spec=spec))
        for found in findings
    )


def figures(history: History) -> dict[Rule, float]:
    """Returns the figure of each rule that has one."""
    asked = ((rule, rule.figure(history)) for rule in every())
    return {rule: figure for rule, figure in asked if figure is not None}


def of_run(path: Path | str) -> Diagnosis:
    """Asks all rules of a run folder, finished or not.

    Raises:
        CheckpointError: it is no run folder, or damaged.
    """
    folder = RunFolder(path)
    card, history = folder.card(), history_of(folder)
    measured = figures(history)
    later = {r.name: n for r in every() if r not in measured and (n := _asked_from(r, history))}
    findings = treated(diagnose(history), spec=card.spec)
    return Diagnosis(
        arm=card.arm,
        seed=card.seed,
        updates=history.updates,
        findings=findings,
        silent={r.name: f for r, f in measured.items() if f < r.limit},
        later=later,
        unmeasured=tuple(r.name for r in every() if r not in measured and r.name not in later),
    )


def _asked_from(rule: Rule, history: History) -> int | None:
    """Returns the update from which a rule can be asked if all goes on as it is; None if never.

    What goes on is the last update that logged of the rule's metrics, or all since the evaluation
    before the last: of three, as two may be those before and after training.
    """
    lines = history.lines
    logged = [line for line in lines if UPDATE in line[1] and {*rule.metrics} & line[1].keys()]
    held = [n for n, (_, metrics) in enumerate(lines, start=1) if HELDOUT in metrics]
    going = [(lines, logged[-1:])]
    if len(held) >= 3:
        going.append((lines[: held[-1]], lines[held[-2] : held[-1]]))
    made = (
        History([*before, *more * n]) for before, more in going for n in range(1, 2 * FEWEST + 1)
    )
    return next((each.updates for each in made if rule.figure(each) is not None), None)


def history_of(folder: RunFolder) -> History:
    """Returns what a run folder has logged."""
    return History((line.step, line.metrics) for line in folder.metrics())


@final
class Watcher:
    """Takes in each update's metrics, and tells each finding once, as soon as it is there.

    Args:
        folder: the run folder; findings in what it has logged before are not told again.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._lines = [(line.step, line.metrics) for line in folder.metrics()]
        self._told = {finding.rule for finding in self._now()}

    def note(self, update: int, *, metrics: Mapping[str, float]) -> None:
        """Takes in metrics of an evaluation, by which the next update is judged, too."""
        self._lines.append((update, metrics))

    def heed(self, update: int, *, metrics: Mapping[str, float]) -> Sequence[Finding]:
        """Takes in the metrics of an update, and returns the findings that are new."""
        self.note(update, metrics=metrics)
        new = [finding for finding in self._now() if finding.rule not in self._told]
        self._told |= {finding.rule for finding in new}
        return treated(new, spec=self._folder.card().spec) if new else ()

    def _now(self) -> Sequence[Finding]:
        return diagnose(History(self._lines))
