"""The schedule contract: which policy makes a batch, and which policy learns from it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gfcr.part import Part
from gfcr.pipeline import Pipeline
from gfcr.train.base import BatchSource
from gfcr.types import Bools, RolloutBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of generation and training, from which a schedule decides."""

    first: int
    """Policy version with which this session began."""
    loaded: int
    """Policy version in the engine."""
    closed: int
    """Batches handed over since the run began; the next is learned from by this version."""
    opened: Mapping[int, int]
    """Batches in the making, in the order in which they were begun, with the policy version that
    the engine had then."""
    done: Sequence[int] = ()
    """Batches among these that are complete."""


class Schedule(Part):
    """Decides when policies reach the engine and when batches are begun. The file name is the name.

    Updates are made in order: the n-th one, from 0, changes policy version n.
    """

    overlaps: ClassVar[bool] = True
    """Whether batches are made beside the trainer, not in turn with it."""

    waits: ClassVar[bool] = True
    """Whether checkpoints are written only between batches, so that a resumed run repeats exactly;
    otherwise they include batches in the making, whose rollouts continue."""

    @property
    def oldest(self) -> int:
        """Most updates between a token's policy and the one that learns from it."""
        return int(self.overlaps)

    @abstractmethod
    def loads(self, version: int, *, at: Standing) -> bool:
        """Returns whether the engine gets this policy version now; versions come in order.

        Parts hear of the update that made the version at the same time.
        """

    @abstractmethod
    def opens(self, at: Standing) -> bool:
        """Returns whether one more batch is begun now."""

    def closes(self, at: Standing) -> int | None:
        """Returns the complete batch that is learned from next; None waits."""
        return at.done[0] if at.done else None

    def drops(self, at: Standing) -> Sequence[int]:
        """Returns batches in the making that have become too old to be learned from."""
        return ()


class Work(BatchSource, Protocol):
    """The run behind the trainer, in pieces of work; only one thread at a time calls it."""

    pipeline: Pipeline
    """The pipeline that makes the batches."""

    def goes_on(self) -> bool:
        """Evaluates the engine's policy if that is due; returns whether any budget is left."""
        ...

    def paused(self) -> bool:
        """Returns whether the run has reached the point where it pauses."""
        ...

    def made(self, batch: RolloutBatch) -> None:
        """Records a batch that the trainer will be given."""
        ...

    def hold(self, batch: RolloutBatch) -> None:
        """Restores a batch that was made before a checkpoint, and not learned from."""
        ...

    def masked(self, kept: Mapping[str, Bools], *, update: int | None = None) -> None: ...
