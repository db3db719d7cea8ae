"""How an arm compares with the baseline under every reading of what was not measured.

An unscorable answer may have had any reward, and an arm that began with another policy differs
not only by its training. A verdict is what all readings of the records agree on:

- unscorable answers of the arm at the lowest reward and the baseline's at the highest, and the
  other way round;
- where the held-out scores before training differ, the gain since then as well as the score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.leaderboard.measure import (
    When,
    declared_bounds,
    scores_of,
    section_of,
    shared_prompts,
    unscorable,
)
from gfcr.stats import UNBOUNDED, Bounds, Comparison, Interval, Verdict, bounds_of, compare, judge
from gfcr.tracking.records import RunRecord

Limits: TypeAlias = tuple[float, float]
"""The lowest and the highest reward that an answer may have."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """How held-out scores before training differ from the baseline's at the same seeds."""

    changed: int
    answers: int
    difference: float
    p_value: float

    @property
    def elsewhere(self) -> bool:
        """Returns whether the arm began with another policy, beyond what chance explains."""
        return self.p_value < 0.05

    def note(self, baseline: str) -> str:
        """Returns the note on the difference for a reader of the row."""
        return (
            f"before training {self.changed} of {self.answers} held-out scores differ from "
            f"{baseline}'s at the same seeds, by {self.difference:+.3f} in the mean"
        )


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The comparison of an arm with the baseline under all readings."""

    shown: Comparison
    """The comparison of scores; the middle of both readings where answers are unscorable."""
    readings: tuple[Comparison, ...]
    start: Start | None
    """The difference before training; None where both began alike."""

    @property
    def p_value(self) -> float:
        """The largest p-value of the readings; 1 where they disagree on which arm is ahead."""
        signs = {float(np.sign(c.difference.value)) for c in self.readings}
        return max(c.p_value for c in self.readings) if len(signs) == 1 else 1.0

    def verdict(self, *, p_value: float, margin: float) -> Verdict:
        """Returns the verdict that all readings give with the corrected p-value."""
        found: list[Verdict] = [judge(c, p_value=p_value, margin=margin) for c in self.readings]
        return found[0] if len(set(found)) == 1 else "inconclusive"


def compared(
    runs: Sequence[RunRecord],
    *,
    baseline: Sequence[RunRecord],
    limits: Limits,
    same_start: bool = True,
) -> Compared | None:
    """Compares the seeds that both have; None where they have none in common.

    Args:
        runs: the arm's runs.
        baseline: the baseline's runs.
        limits: the lowest and highest reward.
        same_start: whether both must begin with one policy; false if a study compares models.
    """
    shared = sorted({run.seed for run in runs} & {run.seed for run in baseline})
    if not shared:
        return None
    pair = _Pair(
        ours=[run for run in runs if run.seed in shared],
        theirs=[run for run in baseline if run.seed in shared],
        limits=limits,
    )
    scores = pair.read()
    start = pair.start()
    gains = pair.read(since="before") if start is not None and same_start else ()
    return Compared(shown=_between(scores), readings=(*scores, *gains), start=start)


def limits_of(runs: Sequence[RunRecord]) -> Limits:
    """Returns the lowest and highest reward that an unscorable answer may have had.

    These are the bounds that the task declares, or else 0 and 1, widened to the rewards seen.
    """
    declared = (declared_bounds(runs) if runs else None) or UNBOUNDED
    low, high = (d if isfinite(d) else usual for d, usual in zip(declared, (0.0, 1.0), strict=True))
    seen = [
        float(score)
        for run in runs
        for when in ("before", "after")
        for score in section_of(run, "per_prompt", when=when).values()
    ]
    return min([low, *seen]), max([high, *seen])


def scale_of(runs: Sequence[RunRecord], *, limits: Limits) -> Bounds | None:
    """Returns the bounds that the task declares of scores; unbounded are those beyond a share's.

    Undeclared scores are taken for shares where those of all arms could be.
    """
    declared = declared_bounds(runs)
    beyond = limits[0] < 0 or limits[1] > 1
    return UNBOUNDED if declared is None and beyond else declared


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The runs of an arm and the baseline at the seeds that both have."""

    ours: Sequence[RunRecord]
    theirs: Sequence[RunRecord]
    limits: Limits

    def read(self, *, since: When | None = None) -> tuple[Comparison, ...]:
        """Returns one comparison, or one for each extreme if answers have no score."""
        whens: list[When] = ["after", *([since] if since else [])]
        lost = any(unscorable(r, when=w) for r, w in product([*self.ours, *self.theirs], whens))
        ends = [self.limits, self.limits[::-1]] if lost else [self.limits]
        prompts = self._prompts(*whens)
        return tuple(self._compare(prompts, since=since, ends=(a, b)) for a, b in ends)

    def _compare(self, prompts: Sequence[str], *, since: When | None, ends: Limits) -> Comparison:
        def read(runs: Sequence[RunRecord], end: float, other: float) -> NDArray[np.float64]:
            now = np.asarray(scores_of(runs, prompts=prompts, unscored=end))
            if since is None:
                return now
            return now - np.asarray(scores_of(runs, prompts=prompts, unscored=other, when=since))

        # The arm's unscorable answers count at one limit, the baseline's at the other.
        ours, theirs = read(self.ours, *ends), read(self.theirs, *ends[::-1])
        span = self._span(ours, theirs, gain=since is not None)
        return compare(ours, baseline=theirs, span=span)

    def _span(self, ours: NDArray[np.float64], theirs: NDArray[np.float64], *, gain: bool) -> float:
        """Returns the largest difference that scores can have; for a gain, twice that."""
        if gain:
            return 2 * (self.limits[1] - self.limits[0])
        declared = scale_of([*self.ours, *self.theirs], limits=self.limits)
        low, high = bounds_of(ours, theirs, declared=declared)
        return high - low

    def start(self) -> Start | None:
        """Returns the difference before training, over prompts that all runs scored in full."""
        every = [*self.ours, *self.theirs]
        lost = {p for run in every for p in section_of(run, "unscorable", when="before")}
        prompts = [p for p in self._prompts("before") if p not in lost]
        ours, theirs = (
            np.asarray(scores_of(runs, prompts=prompts, unscored=self.limits[0], when="before"))
            for runs in (self.ours, self.theirs)
        )
        changed = np.abs(ours - theirs) > 1e-9
        if not changed.any():
            return None
        found = compare(ours, baseline=theirs, span=self._span(ours, theirs, gain=False))
        return Start(
            changed=int(changed.sum()),
            answers=int(changed.size),
            difference=found.difference.value,
            p_value=found.p_value,
        )

    def _prompts(self, *whens: When) -> list[str]:
        every = [*self.ours, *self.theirs]
        held = [set(shared_prompts(every, when=when)) for when in whens]
        return sorted(set[str].intersection(*held))


def _between(readings: Sequence[Comparison]) -> Comparison:
    """Returns one comparison for all readings: middle values, and intervals that cover all."""
    signs = {float(np.sign(c.difference.value)) for c in readings}
    values: dict[str, Any] = {
        name: Interval(
            value=fmean(getattr(c, name).value for c in readings),
            low=min(getattr(c, name).low for c in readings),
            high=max(getattr(c, name).high for c in readings),
        )
        for name in ("difference", "inner")
    }
    return replace(
        readings[0],
        **values,
        p_value=max(c.p_value for c in readings) if len(signs) == 1 else 1.0,
        detectable=max(c.detectable for c in readings),
        improves=fmean(c.improves for c in readings),
    )
