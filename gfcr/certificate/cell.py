"""What an audit asks and what it says: one cell per drafter and setting.

The verdict is a function of the recorded figures alone (`judged`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, final

NONE: Final = "none"
"""Called a drafter where the engine does not speculate."""
DISTANCE: Final = 0.01
"""Total variation of the planted biases that a verdict of `lossless` excludes."""
POWER: Final = 0.99
"""Least probability with which each of them would have been found."""
LEVEL: Final = 0.002
"""Probability that an audit, of however many cells, calls an exact engine biased."""
SOME: Final = 100
"""Tokens from which on a mean gap of log-probs is looked at."""


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
    """Corrected for all tests of this cell; 0 where a single token decides."""
    level: float = LEVEL
    """The p-value below which the cell is called biased: the audit's level over its cells."""
    power: float = 0.0
    """Least over the planted biases."""
    power_of: dict[str, float] = field(default_factory=dict[str, float])
    longest: int = 0
    """Most tokens that a completion had."""
    lengths: dict[str, float] = field(default_factory=dict[str, float])
    """Position -> power against a bias of `audit.power.LATE` from there to the end."""
    longest_draft: int = 0
    """Most tokens of a draft that was verified."""
    drafts: dict[str, float] = field(default_factory=dict[str, float])
    """Draft length -> power against `audit.power.FAR` in steps with drafts as long or longer."""
    tokens: int = 0
    wanted: int = 0
    """Tokens that would show every planted bias, about; 0: not known."""
    speculated: int = 0
    """Tokens that came out of verification steps."""
    drafted: int = 0
    accepted: int = 0
    unclear: int = 0
    """Tokens left out: float32 cannot tell which side of a top-k or top-p edge they are on."""
    impossible: int = 0
    """Tokens that the target never emits; at temperature 0, that are not its argmax."""
    ends: int = 0
    """Requests that ended where they should not have, or went on where they should have ended."""
    logprobs: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Kind of token -> `tokens`, `mean` and `most`: how far reported log-probs lie from those of
    the law sampled from, in nats."""
    tolerance: dict[str, float] = field(default_factory=dict[str, float])
    """The largest `mean` and `most` that the engine's number format explains."""
    unreported: int = 0
    """Tokens without a log-prob."""
    tests: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Family -> test -> uncorrected p-value."""
    seconds: float = 0.0
    """That the cell took."""
    exact: bool = True
    """Whether the drafter says of its own rule that it follows the target."""
    refused: bool = False
    """Whether the engine rejects this setting, so that no run can be biased by it."""

    @property
    def greedy(self) -> bool:
        """Returns whether tokens were compared with the argmax."""
        return self.law.get("temperature") == 0

    @property
    def length(self) -> int:
        """Completions up to so many tokens are audited."""
        weak = [int(start) for start, power in self.lengths.items() if power < POWER]
        return min(self.longest, *weak) if weak else self.longest

    @property
    def draft(self) -> int:
        """Drafts up to so many tokens are audited."""
        weak = [int(start) - 1 for start, power in self.drafts.items() if power < POWER]
        return min(self.longest_draft, *weak) if weak else self.longest_draft

    def speaks_for(self, *, max_tokens: int, max_draft: int) -> bool:
        """Returns whether completions and drafts this long were audited.

        Drafts longer than any that the drafter made in completions as long need no audit. Where
        no draft could be seen, none was audited.
        """
        long = max_draft <= self.draft or 0 < self.draft == self.longest_draft
        return max_tokens <= self.length and (long or max_draft == 0)


def judged(cell: Cell) -> Cell:
    """The cell with the verdict and the reason that its figures give: the audit's only rule."""
    if reason := _bias(cell):
        return replace(cell, verdict=Verdict.BIASED, reason=reason)
    if reason := _missing(cell):
        return replace(cell, verdict=Verdict.INCONCLUSIVE, reason=reason)
    upto = f"; up to {cell.length} tokens" + f", drafts of {cell.draft}" * (cell.draft > 0)
    if cell.greedy:
        why = f"all {cell.tokens} greedy tokens are the target's argmax{upto}"
    else:
        why = f"no test rejects; each {cell.distance:.0%} bias would show with p >= "
        why += f"{cell.power:.3f}{upto}"
    return replace(cell, verdict=Verdict.LOSSLESS, reason=why)


def verdict_of(cells: Iterable[Cell]) -> Verdict:
    """`biased` if any cell is; `lossless` if all cells that the engine accepts are."""
    found = {c.verdict for c in cells if not c.refused}
    if Verdict.BIASED in found:
        return Verdict.BIASED
    return Verdict.LOSSLESS if found == {Verdict.LOSSLESS} else Verdict.INCONCLUSIVE


def wrong_logprobs(cell: Cell) -> str:
    """The kind of token whose reported log-probs are wrong; empty where none is."""
    for kind, gap in cell.logprobs.items():
        far = not gap["most"] <= cell.tolerance["most"]
        off = gap["tokens"] >= SOME and not gap["mean"] <= cell.tolerance["mean"]
        if far or off:
            return kind
    return ""


def _bias(cell: Cell) -> str:
    """Returns why the cell is biased; empty where it is not."""
    if cell.impossible and cell.greedy:
        return f"{cell.impossible} of {cell.tokens} greedy tokens are not the target's argmax"
    if cell.impossible:
        return f"{cell.impossible} tokens were sampled that the target never emits"
    if cell.ends:
        return f"{cell.ends} requests ended where they should not, or did not end where they should"
    if kind := wrong_logprobs(cell):
        gap = cell.logprobs[kind]
        return (
            f"log-probs: those reported for {kind} tokens are {gap['mean']:.1e} nats from the law "
            f"sampled from on average, {gap['most']:.1e} at most"
        )
    if cell.p_value < cell.level:
        return f"'{cell.test}' has corrected p = {cell.p_value:.1e} < {cell.level:.1e}"
    return ""


def _missing(cell: Cell) -> str:
    """Returns why the cell proves nothing; empty where it does."""
    if cell.refused:
        return cell.reason
    if cell.drafter != NONE and not cell.speculated:
        return "the drafter never drafted"
    missing = cell.wanted - cell.tokens
    more = f"; about {missing:,} more are missing: see --minutes" * (missing > 0)
    if cell.power < POWER and cell.greedy:
        return f"{cell.speculated or cell.tokens} greedy tokens are too few to show a bias{more}"
    if cell.power < POWER:
        weakest = min(cell.power_of, key=cell.power_of.__getitem__, default="no room")
        return (
            f"{cell.speculated or cell.tokens} tokens would show a {cell.distance:.0%} bias "
            f"({weakest}) with probability {cell.power:.2f} only{more}"
        )
    if cell.unreported or not cell.logprobs:
        return f"{cell.unreported or cell.tokens} tokens came without a log-prob"
    if not cell.exact and not cell.greedy:
        return "no test rejects, but the drafter states that its rule is not exact"
    return ""
