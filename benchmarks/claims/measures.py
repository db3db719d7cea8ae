"""Measures effects: paired by seed, above 0 where the strategy is better.

Scores are compared prompt by prompt, as on the leaderboard. Costs are compared as logarithms of
baseline / strategy, one per seed: 0.69 is half the cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Final, Literal, TypeAlias

from benchmarks.claims.claim import Claim, Measure
from benchmarks.claims.score import Score, score_of, scores
from gfcr.leaderboard.measure import result_of, unscorable
from gfcr.stats import Comparison, compare
from gfcr.tracking.curve import floored, reached
from gfcr.tracking.records import RunRecord

CALLS: Final = "generate/tool_calls"
"""Metric with the number of tool calls in training so far."""
Bound: TypeAlias = Literal["updates", "tokens", "seconds"]
"""The budget that both arms share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost of a run, and whether the run reached the target."""

    cost: float
    reached: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An effect, over the seeds that both arms have."""

    seeds: tuple[int, ...]
    arm: tuple[float, ...]
    """One score, cost or drop per seed."""
    baseline: tuple[float, ...]
    comparison: Comparison
    at_least: bool = False
    """Whether the effect is a lower bound, see `verdict.Effect`."""
    at_most: bool = False
    score: Score | None = None
    """The held-out scores beside it, for measures of something else as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What a measure needs, and what it compares."""

    bound: Bound
    of: Literal["score", "cost", "drop"]
    unit: str
    spent: Callable[[RunRecord, float], Spent] | None = None
    """Returns the cost of a run, given the target score."""


def bound_of(measure: Measure) -> Bound:
    """Returns the budget that both arms share under a measure."""
    return HOW[measure].bound


def least(measure: Measure, *, minimum: float) -> float:
    """Returns a claim's minimum effect in the measure's own unit."""
    return -log(1 - minimum) if HOW[measure].of == "cost" else minimum


def measure(
    claim: Claim, *, arm: Sequence[RunRecord], baseline: Sequence[RunRecord], target: float
) -> Measured | None:
    """Measures the effect over the seeds that both have; None with fewer than two.

    Args:
        claim: what is claimed: its measure, and the margin of the score.
        arm: finished runs of the strategy.
        baseline: finished runs of the baseline.
        target: the held-out score to reach, for measures of the cost of reaching it.
    """
    ours, theirs = ({run.seed: run for run in runs} for runs in (arm, baseline))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if len(seeds) < 2:
        return None
    pair = [ours[s] for s in seeds], [theirs[s] for s in seeds]
    found = _effect(HOW[claim.measure], seeds, *pair, target=target)
    kept = score_of(pair[0], baseline=pair[1], margin=margin_of(claim))
    return None if found is None else replace(found, score=kept)


def margin_of(claim: Claim) -> float:
    """Returns the loss of score that would not matter: where scores are claimed, their minimum."""
    return claim.minimum_effect if HOW[claim.measure].of == "score" else claim.margin


def _effect(
    how: How,
    seeds: tuple[int, ...],
    arm: Sequence[RunRecord],
    baseline: Sequence[RunRecord],
    *,
    target: float,
) -> Measured | None:
    match how.of:
        case "score":
            return _scores(seeds, arm, baseline)
        case "cost":
            return _costs(seeds, arm, baseline, how=how, target=target)
        case "drop":
            return _drops(seeds, arm, baseline)


def drop(run: RunRecord) -> float:
    """Returns the largest fall of a run's held-out score below its earlier best."""
    best, worst = -inf, 0.0
    for *_, score in floored(result_of(run)):
        best = max(best, score)
        worst = max(worst, best - score)
    return worst


def _scores(
    seeds: tuple[int, ...], arm: Sequence[RunRecord], baseline: Sequence[RunRecord]
) -> Measured:
    found = scores(arm, baseline=baseline)
    return Measured(
        seeds=seeds,
        arm=tuple(map(float, found.arm.mean(1))),
        baseline=tuple(map(float, found.baseline.mean(1))),
        comparison=compare(found.arm, baseline=found.baseline, span=found.span),
        at_least=any(map(unscorable, [*arm, *baseline])),
    )


def _costs(
    seeds: tuple[int, ...],
    arm: Sequence[RunRecord],
    baseline: Sequence[RunRecord],
    *,
    how: How,
    target: float,
) -> Measured | None:
    assert how.spent is not None
    ours, theirs = ([how.spent(run, target) for run in runs] for runs in (arm, baseline))
    if any(not isfinite(s.cost) or s.cost <= 0 for s in (*ours, *theirs)):
        return None
    # Swapped, so that a lower cost of the strategy is an effect above 0.
    gains = ([log(s.cost) for s in theirs], [log(s.cost) for s in ours])
    return Measured(
        seeds=seeds,
        arm=tuple(s.cost for s in ours),
        baseline=tuple(s.cost for s in theirs),
        comparison=compare(gains[0], baseline=gains[1], span=inf),
        at_least=not all(s.reached for s in theirs),
        at_most=not all(s.reached for s in ours),
    )


def _drops(
    seeds: tuple[int, ...], arm: Sequence[RunRecord], baseline: Sequence[RunRecord]
) -> Measured:
    ours, theirs = (tuple(map(drop, runs)) for runs in (arm, baseline))
    return Measured(
        seeds=seeds,
        arm=ours,
        baseline=theirs,
        comparison=compare(theirs, baseline=ours, span=inf),
    )


def _to_target(column: int) -> Callable[[RunRecord, float], Spent]:
    """Returns what reads a curve's column where the target is reached, else at its end."""

    def spent(run: RunRecord, target: float) -> Spent:
        points = floored(result_of(run))
        there = reached(points, target=target)
        return Spent(cost=float((there or points[-1])[column]), reached=there is not None)

    return spent


def _tokens(run: RunRecord, target: float) -> Spent:
    return Spent(cost=float(floored(result_of(run))[-1][1]))


def _generation(run: RunRecord, target: float) -> Spent:
    return Spent(cost=float(result_of(run)["time"].get("generate_s", 0.0)))


def _passes(run: RunRecord, target: float) -> Spent:
    return Spent(cost=float(result_of(run).get("forward_passes") or 0.0))


def _calls(run: RunRecord, target: float) -> Spent:
    return Spent(cost=float(max((num for _, num in run.series.get(CALLS, ())), default=0.0)))


def _answers(run: RunRecord, target: float) -> Spent:
    """Returns the tokens of all evaluations, which ask the same prompts as often in both arms."""
    return Spent(cost=float(result_of(run)["tokens"]["evaluation"]))


HOW: Final[Mapping[Measure, How]] = {
    "score_at_tokens": How(bound="tokens", of="score", unit="score"),
    "score_at_updates": How(bound="updates", of="score", unit="score"),
    "score_at_seconds": How(bound="seconds", of="score", unit="score"),
    "tokens_to_target": How(bound="tokens", of="cost", unit="tokens", spent=_to_target(1)),
    "seconds_to_target": How(bound="seconds", of="cost", unit="seconds", spent=_to_target(2)),
    "tokens_saved": How(bound="updates", of="cost", unit="tokens", spent=_tokens),
    "generation_saved": How(
        bound="updates", of="cost", unit="seconds of generation", spent=_generation
    ),
    "passes_saved": How(bound="updates", of="cost", unit="forward passes", spent=_passes),
    "calls_saved": How(bound="updates", of="cost", unit="calls of a tool", spent=_calls),
    "answers_shortened": How(
        bound="updates", of="cost", unit="tokens of held-out answers", spent=_answers
    ),
    "stability": How(bound="updates", of="drop", unit="largest drop of the score"),
}
