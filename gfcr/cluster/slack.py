"""The time that a serving engine can spare: ROSE's admission of rollouts (arXiv 2605.06534).

Of the requests in flight, at time now, for an iteration that takes T seconds:

    slack of one without a token yet   (arrived + TTFT) - now - T_prefill
    slack of one that is decoding      (last token + TPOT) - now - T_decode

Rollout work is let in while every slack stays above 0 with that work in the iteration. Of ROSE only
notes were at hand: that a waiting prompt is charged the whole queue's prefill is our reading.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost
from gfcr.values.ranges import Checked, Count, Positive, Share


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives(Checked):
    """Latency objectives of serving, in seconds."""

    ttft_s: Positive
    """Time to first token: from arrival to the first token."""
    tpot_s: Positive
    """Time per output token: from one token to the next."""


@final
@dataclass(slots=True, kw_only=True)
class Served:
    """A serving request, as far as its latency is concerned."""

    arrived_s: float
    waiting: int
    """Tokens of its prompt that are not computed yet."""
    last_s: float | None = None
    """Time of its latest token; None before the first."""


def read_cost(path: Path | str) -> PassCost:
    """Reads the cost of an iteration that `gfcr bench steps --write` measured.

    Raises:
        ConfigError: the file cannot be read, or holds no cost.
    """
    try:
        held = json.loads(Path(path).read_text("utf-8"))
        return PassCost(base_s=float(held["base_s"]), token_s=float(held["token_s"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no cost of a pass ({error}): make one by `gfcr bench steps --write`."
        ) from error


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Decides how many tokens of rollout work the next iteration may carry."""

    objectives: Objectives
    cost: PassCost
    """Cost of an iteration, measured beforehand on the machine."""
    chunk: Count
    """Most prompt tokens of serving that an iteration computes."""
    reserve: Share = 0.5
    """Share of each objective that rollouts leave to later arrivals: without it the slack of a
    request is spent before a burst queues up behind it. Ours; notes on the paper have none."""

    def slack_s(self, served: Iterable[Served], *, now: float) -> float:
        """Returns seconds that the most urgent request can spare beyond its own work; inf: none."""
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

    def _due(self, request: Served) -> float:
        """Returns the latest time for the request's next token, as far as rollouts may delay it."""
        if request.last_s is None:
            return request.arrived_s + (1 - self.reserve) * self.objectives.ttft_s
        return request.last_s + (1 - self.reserve) * self.objectives.tpot_s
