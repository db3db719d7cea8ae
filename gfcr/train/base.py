"""The trainer contract: something that learns from rollout batches until it is told to stop."""

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
    """Where a trainer gets its batches: the pipeline, behind the experiment's bookkeeping."""

    def next_batch(self) -> RolloutBatch | None:
        """Returns the next update's batch; None ends training, because a budget is spent."""
        ...

    def sync(self, weights: Weights, *, version: int) -> None:
        """Syncs the policy after `version` updates to the engine; before each batch, at the end."""
        ...

    def masked(self, kept: Mapping[str, Bools]) -> None:
        """Reports the tokens that a correction keeps in the loss, (T,) booleans by rollout id."""
        ...

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        """Reports the trainer's metrics (loss, entropy, kl, grad_norm, train_s...) of an update."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the rollout side's whole state, for the checkpoint."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`."""
        ...


def unheard(*_: object, **__: object) -> None:
    """Does nothing, where nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """The arguments of one call of a trainer."""

    model: str
    """Folder of the policy to start from."""
    source: BatchSource
    """Where the batches come from; of processes that train together only rank 0 has one."""
    loss: Loss
    correction: Correction | None = None
    seed: int
    folder: Path
    """Folder for checkpoints, `folder/checkpoint-N`; see `gfcr.train.checkpoint`."""
    sampling: Sampling = field(default_factory=Sampling)
    """Sampling of the rollouts: losses need its temperature and token cap."""
    should_stop: Callable[[], object] = unheard
    record: Callable[..., object] = unheard
    """Writes down what the correction made of an update, counted from 0, before it is learned from:
    weight and mask of each token, by rollout id."""
    say: Callable[[str], None] = unheard
    """Called with a line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The optimizer steps and passes of one update."""

    micro_batches: int
    """Forward and backward passes of an optimizer step, in each process."""
    mini_batches: int = 1
    """Parts that the batch is split into, with an optimizer step each."""
    iterations: int = 1
    """Number of times that the update goes through the batch."""

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
    """Update at which the run was resumed; 0 for a fresh start."""
    model: str
    """Folder of the final policy."""


class TrainerConfig(Part):
    """A trainer by name: a dataclass whose fields are its settings. The file name is the name."""

    needs_model: ClassVar[bool] = True
    """Whether it loads a model; False for trainers that learn nothing."""
    spreads: ClassVar[bool] = False
    """Whether processes that were launched together can train with it."""
    max_steps: int
    """Number of updates to make."""

    def check(self, loss: Loss, *, correction: Correction | None, sampling: Sampling) -> None:
        """Checks that the loss can be computed exactly, before anything starts.

        Raises:
            ConfigError: it cannot; names the settings.
        """

    def finished(self, folder: Path) -> None:
        """Removes what only a run that goes on needs, after one has its result.

        Args:
            folder: the folder of its checkpoints.
        """

    @abstractmethod
    def train(self, job: TrainJob) -> TrainResult:
        """Trains, resuming from the newest complete checkpoint in `job.folder`."""
