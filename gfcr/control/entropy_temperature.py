"""Samples hotter where entropy is below a target, and colder where it is above."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import ClassVar, final

from gfcr.errors import ConfigError
from gfcr.stages import AfterUpdate, Allocator, Control, Job, View
from gfcr.values.ranges import Heat, Positive, SomeShare


@final
@dataclass(kw_only=True)
class EntropyTemperature(Control, Allocator, AfterUpdate):
    """Steers the sampling temperature by the entropy that the trainer measures.

    After an update with entropy H the factor s of the run's temperature becomes
        clip(s exp(`rate` max(1 - H / `target`, -1)), `low`, `high`),
    beginning with 1: it stays where H is the target, and where the trainer reports no `entropy`.
    What is sampled is weighed by the strategy's `correction`, which it needs; see
    `temperature_schedule`. H is of the policy at the run's temperature, so that heat acts on it
    through what is learned, not by itself.

    Hurts where entropy falls because the task is solved: heat then makes errors to no end; bound it
    by `high`.
    """

    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "ours"
    heats: ClassVar[bool] = True

    target: Positive = 0.3
    """Nats a token; look at the metric `entropy` of a first run."""
    rate: SomeShare = 0.05
    low: Heat = 0.8
    high: Heat = 1.25
    scale: float = field(init=False, default=1.0)
    """What the run's temperature is multiplied by."""

    def __post_init__(self) -> None:
        if not self.low <= 1 <= self.high:
            raise ConfigError(
                f"entropy_temperature.low={self.low} and entropy_temperature.high={self.high} "
                "leave out 1, which it begins with: give low <= 1 <= high."
            )

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        heat = view.sampling.temperature * self.scale
        return [replace(j, sampling=replace(j.sampling, temperature=heat)) for j in jobs]

    def after_update(self, metrics: Mapping[str, float], *, view: View) -> None:
        if "entropy" not in metrics:
            return
        # Far above the target the step is that of twice the target: one odd update moves little.
        short = max(1 - metrics["entropy"] / self.target, -1.0)
        self.scale = min(max(self.scale * exp(self.rate * short), self.low), self.high)

    def metrics(self) -> Mapping[str, float]:
        """Returns what the run's temperature will be multiplied by in the next batch."""
        return {"scale": self.scale}
