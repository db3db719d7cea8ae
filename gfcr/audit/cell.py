"""What an audit asks and what it says: one cell per drafter and setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, final

NONE: Final = "none"
"""Called a drafter where the engine does not speculate."""
SAMPLES: Final = 300_000
"""Most tokens a cell samples. It stops earlier where fewer show every planted bias."""
DISTANCE: Final = 0.01
"""Total variation of the planted biases that a verdict of `lossless` excludes."""
POWER: Final = 0.99
"""Least probability with which each of them would have been found."""
LEVEL: Final = 0.002
"""Probability that an audit, of however many cells, calls an exact engine biased."""
ROUND: Final = 25_000
"""Tokens, about, between looks at the power (which does not depend on what was sampled)."""


class Verdict(StrEnum):
    """What an audit says."""

    LOSSLESS = "lossless"
    BIASED = "biased"
    INCONCLUSIVE = "inconclusive"
    """Not biased as far as seen, but the sample could not have shown a bias of stated size."""


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """The outcome of one drafter under one setting: figures, and what `judged` makes of them."""

    drafter: str
    setting: str
    verdict: Verdict = Verdict.INCONCLUSIVE
    reason: str = ""
    """Why, in one sentence."""
    law: Mapping[str, float] = field(default_factory=dict[str, float])
    """What of the sampling decides the distribution: temperature and filters."""
    distance: float = DISTANCE
    """Total variation of the planted biases that `lossless` excludes."""
    statistic: float = 0.0
    """Of the test with the least corrected p-value, named by `test`."""
    test: str = ""
    df: int = 0
    """Degrees of freedom of a chi-square; 0: standard normal; -1: a count."""
    p_value: float = 1.0
    """Corrected for all tests of this cell."""
    level: float = LEVEL
    """The p-value below which the cell is called biased: the audit's level over its cells."""
    power: float = 0.0
    """Least over the planted biases."""
    power_of: dict[str, float] = field(default_factory=dict[str, float])
    tokens: int = 0
    speculated: int = 0
    """Tokens that came out of verification steps."""
    drafted: int = 0
    accepted: int = 0
    unclear: int = 0
    """Tokens left out: float32 cannot tell which side of a top-k or top-p edge they are on."""
    impossible: int = 0
    """Tokens that the target never emits."""
    tests: dict[str, float] = field(default_factory=dict[str, float])
    """Uncorrected p-value of every test."""
    refused: bool = False
    """Whether the engine rejects this setting, so that no run can be biased by it."""
    exact: bool = True
    """Whether the drafter says of its own rule that it follows the target."""


def judged(cell: Cell) -> Cell:
    """The cell with the verdict and the reason that its figures give: the audit's only rule."""
    verdict, reason = _ruling(cell)
    return replace(cell, verdict=verdict, reason=reason)


def _ruling(c: Cell) -> tuple[Verdict, str]:
    greedy = c.law.get("temperature") == 0
    if c.refused:
        return Verdict.INCONCLUSIVE, c.reason
    if c.impossible:
        why = f"{c.impossible} tokens were sampled that the target never emits"
        return Verdict.BIASED, why
    if c.p_value < c.level:
        why = f"'{c.test}' has corrected p = {c.p_value:.1e} < {c.level:.1e}"
        if greedy:
            why = f"{c.statistic:g} of {c.tokens} greedy tokens are not the target's argmax"
        return Verdict.BIASED, why
    if c.drafter != NONE and not c.speculated:
        return Verdict.INCONCLUSIVE, "the drafter never drafted"
    if c.power < POWER:
        weakest = min(c.power_of, key=lambda name: c.power_of[name], default="")
        why = (
            f"{c.speculated or c.tokens} tokens would show a {c.distance:.0%} bias ({weakest}) "
            f"with probability {c.power:.2f} only"
        )
        if greedy:
            why = f"{c.speculated or c.tokens} greedy tokens are too few to show a bias"
        return Verdict.INCONCLUSIVE, why
    if not (c.exact or greedy):
        why = "no test rejects, but the drafter states that its rule is not exact"
        return Verdict.INCONCLUSIVE, why
    if greedy:
        return Verdict.LOSSLESS, f"all {c.tokens} greedy tokens are the target's argmax"
    why = f"no test rejects; each {c.distance:.0%} bias would show with p >= {c.power:.3f}"
    return Verdict.LOSSLESS, why


@final
@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What is asked. Every round asks all prompts again, so that contexts repeat."""

    prompts: Sequence[Sequence[int]]
    max_tokens: int
    repeats: int = 32
    """Requests of a prompt in a row, so that neighbours share it."""

    def round(self) -> list[Sequence[int]]:
        """Prompts of about `ROUND` tokens' worth of requests, and of two repeats at least."""
        wanted = max(2 * len(self.prompts), ROUND // self.max_tokens)
        each = max(1, min(self.repeats, wanted // len(self.prompts)))
        block = [p for p in self.prompts for _ in range(each)]
        return block * max(1, round(wanted / len(block)))
