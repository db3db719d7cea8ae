"""Time- and tokens-to-target, and the Pareto fronts."""

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan, nan
from statistics import median

from gfcr.leaderboard.measure import mean_of, result_of
from gfcr.leaderboard.rows import Pareto, ToTarget
from gfcr.tracking.curve import floored, reached
from gfcr.tracking.records import RunRecord


def end_of(runs: Sequence[RunRecord], *, least: float) -> float:
    """Returns the mean held-out score at the end of runs, unscorable answers at `least`."""
    ends = [floored(result_of(run), least=least)[-1:] for run in runs]
    return mean_of(point[3] for end in ends for point in end)


def to_target(runs: Sequence[RunRecord], *, target: float, least: float) -> ToTarget:
    """Returns what the runs took to reach a held-out score.

    Where a run reaches it says `curve.reached`, with unscorable answers as in `curve.floored`;
    nothing is interpolated. A run that never does counts as infinite in the median over runs.
    """
    there = [reached(floored(result_of(run), least=least), target=target) for run in runs]
    updates, tokens, seconds = (_median([p[i] if p else inf for p in there]) for i in range(3))
    return ToTarget(
        reached=sum(point is not None for point in there),
        runs=len(runs),
        tokens=tokens,
        seconds=seconds,
        updates=updates,
    )


def pareto(points: Mapping[str, tuple[float, float, float]]) -> dict[str, Pareto]:
    """Returns for each arm whether it is on the fronts of tokens and seconds.

    Args:
        points: (score, tokens, seconds) by arm.
    """
    on_tokens = _front({arm: (p[0], p[1]) for arm, p in points.items()})
    on_seconds = _front({arm: (p[0], p[2]) for arm, p in points.items()})
    return {arm: Pareto(tokens=arm in on_tokens, seconds=arm in on_seconds) for arm in points}


def _front(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Returns the arms that no other dominates; an arm of unknown cost is not among them."""
    known = {arm: p for arm, p in points.items() if isfinite(p[1])}
    return {
        arm
        for arm, (score, cost) in known.items()
        if not any(
            s >= score and c <= cost and (s > score or c < cost)
            for other, (s, c) in known.items()
            if other != arm
        )
    }


def _median(values: Sequence[float]) -> float:
    # A NaN has no place in an order: of a cost that some seeds lack nothing is known.
    middle = nan if any(map(isnan, values)) else median(values)
    return middle if isfinite(middle) else nan
