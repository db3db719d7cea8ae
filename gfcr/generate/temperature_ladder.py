"""Samples of one prompt at temperatures from cold to hot."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.errors import ConfigError
from gfcr.stages import Generate, Session
from gfcr.values.ranges import Heat


@final
@dataclass(kw_only=True)
class TemperatureLadder(Generate):
    """Samples each rollout of a group at a temperature of its own.

    That of sample i of n is (low + (high - low) i / (n - 1)) times the job's, in its notes as
    `temperature` where it is another; a single sample has the middle. Cold samples say what the
    policy is sure of, hot ones find what it seldom tries, and a group compares them.

    The policy that is trained is the one at the run's temperature: what is sampled is off it, and
    weighed for it by the strategy's `correction`, which it needs. Hurts far from the run's
    temperature, where a truncated weight is a biased one.
    """

    cell: ClassVar[str] = "G4.4"
    origin: ClassVar[str] = "ours"
    heats: ClassVar[bool] = True

    low: Heat = 0.8
    high: Heat = 1.25

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(
                f"temperature_ladder.low={self.low} is above temperature_ladder.high={self.high}: "
                "give low <= high."
            )

    def scale(self, index: int, *, of: int) -> float:
        """Returns what the temperature of one of so many samples is multiplied by."""
        place = index / (of - 1) if of > 1 else 0.5
        return self.low + (self.high - self.low) * place

    async def run(self, session: Session) -> None:
        num = session.job.num_samples
        await session.gather(*(self._sample(i, of=num, session=session) for i in range(num)))

    async def _sample(self, index: int, *, of: int, session: Session) -> None:
        heat = session.job.sampling.temperature * self.scale(index, of=of)
        await session.open(index, temperature=heat).sample()
