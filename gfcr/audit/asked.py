"""What an audit asks of an engine: one cell, and how exact its arithmetic must be."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final, final

from gfcr.audit.law import TOLERANCE
from gfcr.audit.sampler import Drafts, Records, Target
from gfcr.certificate.cell import LEVEL, NONE
from gfcr.certificate.settings import Setting

SAMPLES: Final = 300_000
"""Most tokens a cell samples. It stops earlier where fewer show every planted bias."""
ROUND: Final = 25_000
"""Tokens, about, between looks at the power (which does not depend on what was sampled)."""


@final
@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Differences of log-probs, in nats, between a correct engine and the target in float32.

    They prove nothing against the engine.
    """

    mean: float
    """On average over the tokens of a kind."""
    most: float
    """At any token: the less likely one is, the farther off its log-prob may be."""
    tie: float
    """Between tokens that are likely: an argmax or a filter's edge this close cannot be told."""
    drawn: bool = False
    """Whether the law of a token given a draft drawn at random can be told: it is a difference of
    two rounded laws. Otherwise such an engine is judged by its tokens alone."""


ROUNDINGS: Final[Mapping[str, Rounding]] = {
    "float32": Rounding(mean=1e-3, most=2e-2, tie=TOLERANCE, drawn=True),
    "float16": Rounding(mean=1e-2, most=0.5, tie=5e-2),
    "bfloat16": Rounding(mean=5e-2, most=3.0, tie=0.3),
}
"""Measured on the demo model, on average and at most: float32 2e-6 and 5e-5, bfloat16 2e-2 (tokens
in place of rejected drafts) and 1.2, of 300,000 tokens on an H100; float16 has 8 times the
precision of bfloat16."""


@final
@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What is asked. Every round asks all prompts again, so that contexts repeat."""

    prompts: Sequence[Sequence[int]]
    max_tokens: int
    repeats: int = 32
    """Requests of a prompt in a row, so that neighbours share it."""
    typical: int = 0
    """Tokens of a completion that ends by itself, about; 0: `max_tokens`."""
    tokens: int = ROUND
    """Of a round, about."""

    def round(self, *, endless: bool = False) -> list[Sequence[int]]:
        """Prompts of about `tokens` tokens' worth of requests, and of two repeats at least."""
        each_tokens = self.max_tokens if endless else self.typical or self.max_tokens
        wanted = max(2 * len(self.prompts), self.tokens // min(each_tokens, self.max_tokens))
        each = max(1, min(self.repeats, wanted // len(self.prompts)))
        block = [p for p in self.prompts for _ in range(each)]
        return block * max(1, round(wanted / len(block)))


@final
@dataclass(frozen=True, kw_only=True)
class Asked:
    """The setting, target and limits of one cell."""

    target: Target
    """The model that the engine should sample from."""
    setting: Setting
    prompts: Prompts
    """Prompts of the cell; for long settings they leave room for `max_tokens` only."""
    drafter: str = NONE
    """Name of the drafter; `none` states that the engine does not speculate."""
    deterministic: bool = True
    """Whether drafts are a function of the past, not sampled."""
    drafts: Drafts | None = None
    """Returns what the next step will verify. Without it or `records`, power is computed from the
    engine's counters, and a defect in few of the tokens is harder to see."""
    records: Records | None = None
    """Returns the records of an engine in another process: what its steps were made of."""
    proposal: Target | None = None
    """The drafting policy, if drafts come from a model or an older policy: a wrong acceptance rule
    leans towards it or away from it, context by context."""
    ends: Collection[int] | None = None
    """Tokens that end a request; None if they are not known."""
    dtype: str = "float32"
    """The engine's dtype, which says how far its log-probs may be from the target's."""
    samples: int = SAMPLES
    """Most tokens to sample."""
    seconds: float = inf
    """After these no round begins, but for one of each kind."""
    kept: Path | None = None
    """File in which what was gathered waits for the next audit of the cell."""
    level: float = LEVEL
    """The p-value below which the verdict is `biased`."""
    seed: int = 0

    @property
    def rounding(self) -> Rounding:
        """Returns what the engine's dtype may be off by; `auto` is bfloat16 or float16."""
        return ROUNDINGS.get(self.dtype, ROUNDINGS["bfloat16"])
