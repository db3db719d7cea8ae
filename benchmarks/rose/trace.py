"""Synthetic serving traffic: seeded, bursty, open-loop, bounded in count and time."""

from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from gfcr.errors import ConfigError
from gfcr.seeds import rng
from gfcr.values.ranges import Checked, Count, Positive, Seed, SomeShare


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request and its arrival time, independent of when others are answered."""

    at_s: float
    prompt: int
    """Tokens of the prompt."""
    output: int
    """Tokens that the request asks for."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Checked):
    """Calm and bursts in turn, of exponential length; Poisson arrivals within each.

    A day of a serving cluster had peaks of 4.2 times the mean (notes on ROSE): with bursts in a
    share b of the time, the mean rate is calm (1 - b) + calm burst b.
    """

    seconds: Positive
    rate: Positive
    """Mean requests per second, over calm and bursts."""
    burst: Annotated[float, Ge(1)] = 6.0
    """Ratio of the request rate in a burst to that in calm."""
    share: SomeShare = 0.15
    """Share of the time that is in bursts."""
    burst_s: Positive = 2.0
    """Mean length of a burst in seconds."""
    prompt: Count = 64
    """Mean tokens of a prompt, geometrically distributed."""
    output: Count = 32
    """Mean tokens of an answer, geometrically distributed."""
    longest: Count = 256
    """Most tokens of either."""
    most: Count = 10_000
    """Most requests in all, on average."""
    seed: Seed = 0

    def __post_init__(self) -> None:
        if (number := self.rate * self.seconds) > self.most:
            raise ConfigError(
                f"rate={self.rate:g}, seconds={self.seconds:g}: {number:g} requests are more than "
                f"{self.most:,}, the most of a trace. Lower one of them."
            )

    def arrivals(self) -> list[Arrival]:
        """Returns the requests in order of arrival; equal traces give equal requests."""
        draw = rng(self.seed, "serving trace")
        calm = self.rate / (1 - self.share + self.burst * self.share)
        calm_s = self.burst_s * (1 - self.share) / self.share
        found: list[Arrival] = []
        # Flipped below: it begins in a burst as often as there is one at any other time.
        now, ends, bursts = 0.0, 0.0, draw.random() >= self.share
        while True:
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
