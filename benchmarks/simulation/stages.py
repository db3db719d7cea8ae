"""Computes step time from stage times: the gain of faster generation, or of overlapping it.

NVIDIA, arXiv 2604.26779 (formula of the bound); all times in seconds.

    synchronous   T = T_data + T_prepare + T_gen / speed + T_logprob + T_train
    lagged        T = T_data + T_prepare + max(T_gen / speed, T_logprob + T_train)
    bound         T_before / T_after <= 1 / (R_gen / alpha + 1 - R_gen)
"""

from dataclasses import dataclass
from typing import final

from gfcr.errors import ConfigError
from gfcr.values.ranges import Checked, NonNegative


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stages(Checked):
    """The seconds of each stage of one synchronous step."""

    generate_s: NonNegative
    train_s: NonNegative
    logprob_s: NonNegative = 0.0
    prepare_s: NonNegative = 0.0
    """Weight sync and engine set-up, during which neither side works."""
    data_s: NonNegative = 0.0

    @property
    def learn_s(self) -> float:
        """The stages that generation can overlap with: log-probs and training."""
        return self.logprob_s + self.train_s

    @property
    def serial_s(self) -> float:
        """The stages that nothing can overlap with."""
        return self.data_s + self.prepare_s

    @property
    def share(self) -> float:
        """R_gen: the share of generation in the synchronous step."""
        return self.generate_s / synchronous(self).total_s


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The time of one step."""

    total_s: float
    exposed_s: float
    """Generation that the learner waits for."""


def synchronous(stages: Stages, *, speed: float = 1.0) -> StepTime:
    """Returns the time of generating and then learning, with all of generation exposed."""
    generate_s = stages.generate_s / _positive(speed)
    return StepTime(total_s=stages.serial_s + generate_s + stages.learn_s, exposed_s=generate_s)


def lagged(stages: Stages, *, speed: float = 1.0) -> StepTime:
    """Returns the time of generating the next batch while learning from this one.

    With constant stage times one update of lag hides all that can be hidden; more lag only
    smooths times that vary (`benchmarks.simulation.overlap`).
    """
    generate_s = stages.generate_s / _positive(speed)
    return StepTime(
        total_s=stages.serial_s + max(generate_s, stages.learn_s),
        exposed_s=max(0.0, generate_s - stages.learn_s),
    )


def bound(share: float, *, acceptance_length: float) -> float:
    """Returns the largest speed-up of a synchronous step.

    Args:
        share: R_gen, in [0, 1].
        acceptance_length: alpha, mean tokens per verification: generation gains no more.
    """
    return 1 / (share / _positive(acceptance_length) + 1 - share)


def _positive(speed: float) -> float:
    if not speed > 0:
        raise ConfigError(f"a speed-up of {speed} is not allowed: give a number > 0.")
    return speed
