"""A gate on the number of tokens."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter._gates import Gate, check_order
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Count, Natural


@final
@dataclass(kw_only=True)
class LengthGate(Gate):
    """Fails rollouts of fewer than `min_tokens` or more than `max_tokens` sampled tokens.

    End-of-sequence counts, what a tool said does not.

    Hurts as `max_tokens` nears the lengths that hard prompts need: their only right answers may be
    the long ones.
    """

    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    min_tokens: Natural = 2
    """2 fails answers that are nothing but an end."""
    max_tokens: Count = 1_000_000

    def __post_init__(self) -> None:
        keys = ("length_gate.min_tokens", "length_gate.max_tokens")
        check_order(self.min_tokens, self.max_tokens, keys=keys)

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        return self.min_tokens <= int(rollout.mask_T.sum()) <= self.max_tokens
