"""How long a serving engine may be kept from its requests: ROSE's admission (arXiv 2605.06534).

Of the requests in flight, at time now, for an iteration that takes T seconds:

    slack of one without a token yet   (arrived + TTFT) - now - T_prefill
    slack of one that is decoding      (last token + TPOT) - now - T_decode

Rollout work is let in while every slack stays above 0 with that work in the iteration. Of ROSE only
notes were at hand: that a waiting prompt is charged the whole queue's prefill is our reading.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from gfcr.speculation.budget import PassCost
from gfcr.values.ranges import Checked, Count, Positive, Share


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives(Checked):
    """Latency budgets of serving."""

    ttft_s: Positive
    """From arrival to the first token."""
    tpot_s: Positive
    """From one token to the next."""


@final
@dataclass(slots=True, kw_only=True)
class Served:
    """A serving request as far as its latency goes."""

    arrived_s: float
    waiting: int
    """Tokens of its prompt that are not computed yet."""
    last_s: float | None = None
    """When it was given its latest token; None before the first."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Says how many tokens of rollout work the next iteration may carry."""

    objectives: Objectives
    cost: PassCost
    """Of an iteration, measured ahead on the machine."""
    chunk: Count
    """Most serving prompt tokens an iteration computes."""
    reserve: Share = 0.5
    """Share of each budget that rollouts leave to what arrives next: without it the slack of a
    request is spent before a burst queues up behind it. Ours; notes on the paper have none."""

    def slack_s(self, served: Iterable[Served], *, now: float) -> float:
        """Seconds that the most pressing request can spare beyond its own work; inf without any."""
        requests = [*served]
        decoding = [r for r in requests if r.last_s is not None]
        waiting = [r for r in requests if r.last_s is None]
        queued = sum(r.waiting for r in waiting)
        first = min(queued, self.chunk)
        decode_s = self.cost.seconds(tokens=len(decoding) + first)
        passes = max(1, -(-queued // self.chunk))
        prefill_s = self.cost.seconds(passes=passes, tokens=passes * len(decoding) + queued)
        spare = [self._due(r) - now - decode_s for r in decoding]
        spare += [self._due(r) - now - prefill_s for r in waiting]
        return min(spare, default=float("inf"))

    def tokens(self, served: Iterable[Served], *, now: float, most: int) -> int:
        """Rollout tokens, at most `most`, with which every slack stays above 0."""
        spare_s = self.slack_s(served, now=now)
        if spare_s <= 0:
            return 0
        if spare_s == float("inf") or not self.cost.token_s:
            return most
        return min(most, int(spare_s / self.cost.token_s))

    def _due(self, request: Served) -> float:
        """When it is to have its next token at the latest, for rollouts."""
        if request.last_s is None:
            return request.arrived_s + (1 - self.reserve) * self.objectives.ttft_s
        return request.last_s + (1 - self.reserve) * self.objectives.tpot_s
