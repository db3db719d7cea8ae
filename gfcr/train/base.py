"""The trainer contract: something that learns from rollout batches until told to stop."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from gfcr.correction.base import Correction
from gfcr.engine.base import Weights
from gfcr.part import Part
from gfcr.types import Bools, Loss, RolloutBatch, Sampling


class BatchSource(Protocol):
    """What a trainer learns from; the pipeline behind the experiment's bookkeeping."""

    def next_batch(self) -> RolloutBatch | None:
        """Makes the next update's batch, or None when a budget is spent: stop training."""
        ...

    def sync(self, weights: Weights, *, version: int) -> None:
        """Hands the engine the policy after `version` updates: before each batch and at the end."""
        ...

    def masked(self, kept: Mapping[str, Bools]) -> None:
        """Reports which tokens of the batch a correction leaves in the loss, by rollout id."""
        ...

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        """Reports the trainer's metrics (loss, entropy, kl, grad_norm, train_s...) of an update."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything with memory on the rollout side, for the checkpoint."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """One call of a trainer."""

    model: str
    """Folder of the policy to start from."""
    source: BatchSource
    loss: Loss
    correction: Correction | None = None
    seed: int
    folder: Path
    """Where checkpoints go: `folder/checkpoint-N`, see `gfcr.train.checkpoint`."""
    sampling: Sampling = field(default_factory=Sampling)
    """What rollouts are sampled with: losses need its temperature and token cap."""
    should_stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What an update is made of."""

    micro_batches: int
    """Forward and backward passes of a step."""
    mini_batches: int = 1
    """Parts of the batch, a step each."""
    iterations: int = 1
    """How often the batch is gone through."""

    @property
    def number(self) -> int:
        """Optimizer steps of an update."""
        return self.mini_batches * self.iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """How training ended."""

    updates: int
    """Updates done in all, earlier sessions of a resumed run included."""
    resumed_from: int
    """Update the run was resumed at; 0 for a fresh start."""
    model: str
    """Folder of the final policy."""


class TrainerConfig(Part):
    """A trainer by name: a dataclass whose fields are its settings. The file name is the name."""

    spreads: ClassVar[bool] = False
    """Whether processes that are launched together can train with it."""
    max_steps: int
    """Updates to make."""

    def check(self, loss: Loss, *, correction: Correction | None, sampling: Sampling) -> None:
        """Vouches for an exact way to compute the loss, before anything starts.

        Raises:
            ConfigError: there is none; names the settings.
        """

    @abstractmethod
    def train(self, job: TrainJob) -> TrainResult:
        """Trains, resuming from the newest complete checkpoint in `job.folder`."""
