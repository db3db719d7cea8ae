"""The held-out score beside a measure: whether what was saved was paid for in score."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from gfcr.leaderboard.measure import (
    declared_bounds,
    heldout,
    result_of,
    scores_of,
    shared_prompts,
    unscorable,
)
from gfcr.leaderboard.readings import limits_of
from gfcr.stats import Interval, bounds_of
from gfcr.stats.interval import Mean, Table, table, two_sided
from gfcr.stats.paired import paired_mean
from gfcr.tracking.curve import floored
from gfcr.tracking.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Held-out scores of both arms after training, seeds by prompts `(S, P)`."""

    arm: Table
    baseline: Table
    span: float
    """The largest size that a difference can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The held-out scores of both arms, over the seeds that both have."""

    margin: float
    """The largest loss of score that would not matter."""
    before: tuple[float, ...]
    """The score of the policy before training, one per seed."""
    arm: tuple[float, ...]
    baseline: tuple[float, ...]
    difference: Interval
    """How much higher the strategy ends, with the 95 % interval."""
    p_value: float
    """The one-sided p-value of a difference of -margin, on the estimate's side of it."""
    gain: Interval
    """How much the baseline learned, with the 90 % interval; NaN where nothing was asked before."""
    at_least: bool
    """Whether the difference is a lower bound: some answers could not be scored."""
    curves: tuple[tuple[tuple[tuple[float, float], ...], ...], ...]
    """(update, score) at every evaluation: of the strategy by seed, and of the baseline."""


def scores(arm: Sequence[RunRecord], *, baseline: Sequence[RunRecord]) -> Tables:
    """Returns scores prompt by prompt; unscorable answers count against the strategy in both."""
    runs = [*arm, *baseline]
    prompts, declared = shared_prompts(runs), declared_bounds(runs)
    lowest, highest = limits_of(runs)
    ours = table(scores_of(arm, prompts=prompts, unscored=lowest))
    theirs = table(scores_of(baseline, prompts=prompts, unscored=highest))
    low, high = bounds_of(ours, theirs, declared=declared)
    return Tables(arm=ours, baseline=theirs, span=high - low)


def score_of(arm: Sequence[RunRecord], *, baseline: Sequence[RunRecord], margin: float) -> Score:
    """Compares the scores of two or more paired runs, same seeds in the same order."""
    found = scores(arm, baseline=baseline)
    mean = paired_mean(found.arm, baseline_SP=found.baseline, span=found.span)
    return Score(
        margin=margin,
        before=tuple(float(heldout(run, "before").get("accuracy", nan)) for run in baseline),
        arm=tuple(map(float, found.arm.mean(1))),
        baseline=tuple(map(float, found.baseline.mean(1))),
        difference=mean.interval(),
        p_value=float(two_sided(mean.value + margin, error=mean.error, df=mean.df)) / 2,
        gain=_gain(baseline, span=found.span).inner(level=0.05),
        at_least=any(map(unscorable, [*arm, *baseline])),
        curves=tuple(tuple(_curve(run) for run in runs) for runs in (arm, baseline)),
    )


def _gain(runs: Sequence[RunRecord], *, span: float) -> Mean:
    if not all(heldout(run, "before") for run in runs):
        return Mean(value=nan, error=nan, df=1)
    prompts = shared_prompts(runs)
    lowest = limits_of(runs)[0]
    before, after = (
        table(scores_of(runs, prompts=prompts, unscored=lowest, when=when))
        for when in ("before", "after")
    )
    return paired_mean(after, baseline_SP=before, span=span)


def _curve(run: RunRecord) -> tuple[tuple[float, float], ...]:
    return tuple((update, value) for update, _, _, value in floored(result_of(run)))
