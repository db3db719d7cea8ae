"""Two ways to have the same requests answered, timed in alternating pairs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Final, final

from benchmarks.demo_pipeline import GROUP
from benchmarks.rounds import spread
from gfcr.errors import ConfigError

LEAST: Final = 5
"""Pairs: fewer say little of how much they differ."""


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure."""

    model: str
    """Its name or folder."""
    pairs: int
    """Alternating pairs, after one that warms up."""
    requests: int
    """Requests of each side of a pair, in groups of one prompt."""
    max_tokens: int
    """Tokens of a request."""
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the engine that are not its defaults."""

    def __post_init__(self) -> None:
        if self.pairs < LEAST or self.requests < GROUP:
            raise ConfigError(
                f"pairs={self.pairs}, requests={self.requests}: give at least {LEAST} and {GROUP}."
            )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same requests both ways."""

    tokens: int
    ours_s: float
    theirs_s: float
    inside_s: float = 0.0
    """Seconds of `ours_s` inside `engine.step`, where they are told apart."""

    @property
    def ratio(self) -> float:
        """Our tokens/s over theirs."""
        return self.theirs_s / self.ours_s


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds that a piece of work takes, and what it returns."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def data(
    pairs: Sequence[Pair], *, plan: Plan, ours: str, theirs: str, goal: float
) -> dict[str, Any]:
    """Returns the figures of all pairs.

    Args:
        pairs: that were measured.
        plan: of what was measured.
        ours: name of our side in the keys, and `theirs` of the other.
        theirs: see `ours`.
        goal: the least median ratio that we want.
    """
    ratios = [pair.ratio for pair in pairs]
    return {
        "model": plan.model,
        "requests": plan.requests,
        "pairs": len(pairs),
        "tokens_per_pair": fmean(pair.tokens for pair in pairs),
        "ratio": spread(ratios),
        "ratios": ratios,
        f"{ours}_tokens_per_s": median(pair.tokens / pair.ours_s for pair in pairs),
        f"{theirs}_tokens_per_s": median(pair.tokens / pair.theirs_s for pair in pairs),
        "goal": goal,
        "reached": median(ratios) >= goal,
    }


def words(found: Mapping[str, Any], *, ours: str, theirs: str) -> str:
    """Says the ratio and both speeds; the names are those of `data`."""
    ratio = found["ratio"]
    own, other = (found[f"{name}_tokens_per_s"] for name in (ours, theirs))
    return (
        f"median {ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f}, "
        f"{found['pairs']} pairs of {found['requests']} requests), goal {found['goal']}\n"
        f"{own:.0f} against {other:.0f} tokens/s"
    )
