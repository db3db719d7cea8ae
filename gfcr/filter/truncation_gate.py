"""Overlong filtering: rollouts cut at the cap are left out of the loss."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter._gates import Gate
from gfcr.stages import View
from gfcr.types import FinishReason, Rollout


@final
@dataclass(kw_only=True)
class TruncationGate(Gate):
    """Fails rollouts that were cut at the token cap: their reward says nothing of the reasoning.

    DAPO's overlong filtering. Behind the advantage map the others are still compared with the mean
    of all, as with TRL's `mask_truncated_completions`; before it, with that of the complete ones.

    Hurts where the model should learn to fit the cap: nothing discourages length any more, and
    what is learned from is biased to short answers, the more so the tighter the cap.
    """

    paper: ClassVar[str] = "2503.14476"
    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "P"

    halted: bool = False
    """Whether rollouts that a Control ended fail too."""

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        ended = rollout.finish == FinishReason.HALTED and self.halted
        return rollout.finish != FinishReason.LENGTH and not ended
