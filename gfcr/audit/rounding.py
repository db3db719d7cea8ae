"""How far a correct engine's arithmetic is from the target's, which is in float32, by its dtype."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from gfcr.audit.law import TOLERANCE


@final
@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Differences of log-probs, in nats, that prove nothing against an engine."""

    mean: float
    """On average over the tokens of a kind."""
    most: float
    """At any token: the less likely one is, the farther off its log-prob may be."""
    tie: float
    """Between tokens that are likely: an argmax or a filter's edge this close cannot be told."""
    drawn: bool = False
    """Whether the law of a token given a draft drawn at random can be told: it is a difference of
    two rounded laws. Otherwise such an engine is judged by its tokens alone."""

    @property
    def tolerance(self) -> dict[str, float]:
        """Returns what reported log-probs may be off by, as certificates record it."""
        return {"mean": self.mean, "most": self.most}


ROUNDINGS: Final[Mapping[str, Rounding]] = {
    "float32": Rounding(mean=1e-3, most=2e-2, tie=TOLERANCE, drawn=True),
    "float16": Rounding(mean=1e-2, most=0.5, tie=5e-2),
    "bfloat16": Rounding(mean=5e-2, most=3.0, tie=0.3),
}
"""Measured on the demo model, on average and at most: float32 2e-6 and 5e-5, bfloat16 2e-2 (tokens
in place of rejected drafts) and 1.2, of 300,000 tokens on an H100; float16 has 8 times the
precision of bfloat16."""


def rounding_of(dtype: str) -> Rounding:
    """Returns the rounding of an engine's dtype; `auto` is bfloat16 or float16."""
    return ROUNDINGS.get(dtype, ROUNDINGS["bfloat16"])
