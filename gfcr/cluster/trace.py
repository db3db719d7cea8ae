"""Requests to a serving engine: seeded, bursty, open-loop, bounded in count and time."""

from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from gfcr.seeds import rng
from gfcr.values.ranges import Checked, Count, Positive, Seed, SomeShare


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request, whenever the one before it is answered."""

    at_s: float
    prompt: int
    """Tokens."""
    output: int
    """Tokens that it asks for."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Checked):
    """Calm and bursts in turn, of exponential length; Poisson arrivals within each.

    A day of a serving cluster had peaks of 4.2 times the mean (notes on ROSE): with bursts in a
    share b of the time, the mean rate is calm (1 - b) + calm burst b.
    """

    seconds: Positive
    rate: Positive
    """Requests a second, over all."""
    burst: Annotated[float, Ge(1)] = 6.0
    """Rate within a burst over that in the calm."""
    share: SomeShare = 0.15
    """Of the time is bursts."""
    burst_s: Positive = 2.0
    """Mean length of one."""
    prompt: Count = 64
    """Mean tokens, geometric."""
    output: Count = 32
    """Mean tokens, geometric."""
    longest: Count = 256
    """Of either."""
    most: Count = 10_000
    """Requests, at most."""
    seed: Seed = 0

    def arrivals(self) -> list[Arrival]:
        """The requests, in order; the same for the same trace."""
        draw = rng(self.seed, "serving trace")
        calm = self.rate / (1 - self.share + self.burst * self.share)
        calm_s = self.burst_s * (1 - self.share) / self.share
        found: list[Arrival] = []
        now, ends, bursts = 0.0, 0.0, True
        while len(found) < self.most:
            if now >= ends:
                bursts = not bursts
                ends = now + draw.exponential(self.burst_s if bursts else max(calm_s, 1e-9))
            gap = draw.exponential(1 / (calm * (self.burst if bursts else 1.0)))
            if now + gap > ends:
                now = ends
                continue
            now += gap
            if now >= self.seconds:
                break
            prompt, output = (
                int(min(draw.geometric(1 / mean), self.longest))
                for mean in (self.prompt, self.output)
            )
            found.append(Arrival(at_s=now, prompt=prompt, output=output))
        return found
