"""A gate on loops and on text that says the same again and again."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.filter._gates import Gate
from gfcr.filter._ngrams import ngrams
from gfcr.stages import View
from gfcr.types import FinishReason, Ints, Rollout
from gfcr.values.ranges import Count, Share


@final
@dataclass(kw_only=True)
class RepetitionGate(Gate):
    """Fails rollouts whose tail is a cycle, or whose n-grams are mostly repeats.

    Cycle: for a period p <= max_period each of the last max(min_repeats * p, min_tokens) tokens
    equals the one p before it, as in the `repetition_stop` control, which ends such rollouts early
    where it may. Repeats: 1 - distinct / all n-grams exceeds `max_share` (seq-rep-n, 1908.04319).
    Rollouts shorter than `min_tokens` pass.

    Hurts where repetition is the answer (tables, copying), and rejecting loops unteaches none:
    `failing: set` does.
    """

    paper: ClassVar[str] = "2508.17445"
    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    max_period: Annotated[int, Interval(ge=1, le=10000)] = 64
    min_repeats: Annotated[int, Interval(ge=2, le=10000)] = 4
    min_tokens: Count = 64
    ngram: Annotated[int, Interval(ge=1, le=1000)] = 4
    """Tokens of an n-gram."""
    max_share: Share = 0.8
    """Most n-grams that may be repeats; 1 asks for no tail cycle only."""

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        tokens = rollout.tokens_T[rollout.mask_T]
        if rollout.finish == FinishReason.STOP:  # the loop that ends is one before its end
            tokens = tokens[:-1]
        if len(tokens) < self.min_tokens:
            return True
        return not self._cycles(tokens) and self._repeated(tokens) <= self.max_share

    def _cycles(self, tokens: Ints) -> bool:
        for period in range(1, self.max_period + 1):
            length = max(self.min_repeats * period, self.min_tokens)
            tail = tokens[-length:]
            if len(tail) == length and bool(np.all(tail[period:] == tail[:-period])):
                return True
        return False

    def _repeated(self, tokens: Ints) -> float:
        num = len(tokens) - self.ngram + 1
        return 1 - len(ngrams(tokens, size=self.ngram)) / num if num > 0 else 0.0
