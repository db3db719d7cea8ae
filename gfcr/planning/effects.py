"""Estimates the variance of a planned comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gfcr.leaderboard.measure import declared_bounds, scores_of, shared_prompts
from gfcr.leaderboard.readings import limits_of
from gfcr.leaderboard.screen import screen
from gfcr.stats import bounds_of
from gfcr.stats.interval import table
from gfcr.stats.power import Components, components
from gfcr.sweep import Study
from gfcr.tracking.records import RunRecord

_FEW = 4
"""Degrees of freedom below which a variance is off by half or more, more often than not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """The variance components of a paired difference, and how they are known."""

    components: Components
    source: str
    """One of `paired runs`, `runs` and `assumed`."""
    detail: str
    """The runs that were read, or the assumption, in words."""


def variance_of(
    study: Study, *, history: Sequence[RunRecord], seed_sd: float, accuracy: float
) -> Variance:
    """Returns the components from earlier runs of the study, else from stated assumptions.

    Runs count where two seeds or more were evaluated with as many answers a prompt as planned.
    Differences with the baseline are read as they are; where only one arm has such runs, two
    arms are taken to vary independently and by as much, with an effect alike on all prompts.
    """
    samples = study.trials[0].config.evaluation.samples
    ours = [
        r
        for r in history
        if r.study == study.name
        and r.arm in study.arms
        and r.params.get("evaluation.samples") == str(samples)
    ]
    arms = screen(ours, baseline=study.baseline)[0]
    return (
        _paired(arms, baseline=study.baseline)
        or _single(arms)
        or _assumed(samples, seed_sd=seed_sd, accuracy=accuracy)
    )


def _paired(arms: Mapping[str, Sequence[RunRecord]], *, baseline: str) -> Variance | None:
    theirs = {r.seed: r for r in arms.get(baseline, ())}
    found: list[Components] = []
    pairs: list[int] = []
    for arm, runs in arms.items():
        shared = [r for r in runs if r.seed in theirs]
        if arm == baseline or len(shared) < 2:
            continue
        against = [theirs[r.seed] for r in shared]
        every = [*shared, *against]
        prompts, lowest = shared_prompts(every), limits_of(every)[0]
        ours, base = (
            table(scores_of(r, prompts=prompts, unscored=lowest)) for r in (shared, against)
        )
        low, high = bounds_of(ours, base, declared=declared_bounds(every))
        found.append(components(ours - base, span=high - low))
        pairs.append(len(shared))
    if not found:
        return None
    return Variance(
        components=_mean(found),
        source="paired runs",
        detail=f"{len(found)} arm(s) against {baseline} over {_range(pairs)} shared seeds"
        + _caution(pairs),
    )


def _single(arms: Mapping[str, Sequence[RunRecord]]) -> Variance | None:
    several = {arm: runs for arm, runs in arms.items() if len(runs) > 1}
    found = [_of_arm(runs) for runs in several.values()]
    if not found:
        return None
    one = _mean(found)
    return Variance(
        components=Components(seed=2 * one.seed, prompt=0.0, residual=2 * one.residual),
        source="runs",
        detail=f"{', '.join(several)} over {_range([len(r) for r in several.values()])} seeds; "
        "another arm is taken to vary independently and by as much, and the effect to be the "
        "same on every prompt" + _caution([len(r) for r in several.values()]),
    )


def _of_arm(runs: Sequence[RunRecord]) -> Components:
    scores = table(scores_of(runs, prompts=shared_prompts(runs), unscored=limits_of(runs)[0]))
    low, high = bounds_of(scores, declared=declared_bounds(runs))
    return components(scores, span=high - low)


def _assumed(samples: int, *, seed_sd: float, accuracy: float) -> Variance:
    cell = accuracy * (1 - accuracy) / samples
    return Variance(
        components=Components(seed=2 * seed_sd**2, prompt=0.0, residual=2 * cell),
        source="assumed",
        detail=f"no earlier runs with two seeds: runs of one arm differ by a standard deviation "
        f"of {seed_sd:g}, answers are right with probability {accuracy:g} (binomial, "
        f"{samples} a prompt), and the effect is the same on every prompt",
    )


def _mean(found: Sequence[Components]) -> Components:
    return Components(
        seed=fmean(c.seed for c in found),
        prompt=fmean(c.prompt for c in found),
        residual=fmean(c.residual for c in found),
    )


def _caution(counts: Sequence[int]) -> str:
    few = sum(n - 1 for n in counts) < _FEW
    return "; from so few seeds it is a guess, and 0 for the seeds means unseen" if few else ""


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"
