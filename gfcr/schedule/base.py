"""The schedule contract: which policy makes a batch, and which one learns from it."""

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
    """How far generation and training are apart."""

    first: int
    """Policy version that this session began with."""
    loaded: int
    """Policy version in the engine."""
    closed: int
    """Batches handed over since the run began: the next one is learned from by this version."""
    opened: Mapping[int, int]
    """The batches in the making, in the order they were begun: the policy version that was in the
    engine when each was."""
    done: Sequence[int] = ()
    """Those of them that are complete."""


class Schedule(Part):
    """Decides when policies reach the engine and when batches are begun. The file name is the name.

    Updates are made in order: the n-th one, from 0, changes policy version n.
    """

    overlaps: ClassVar[bool] = True
    """Whether batches are made beside the trainer; else in turn with it."""

    waits: ClassVar[bool] = True
    """Whether a checkpoint is made between batches only, so that a run that goes on from one is the
    same as in one piece; else of batches in the making too, whose rollouts then go on."""

    @abstractmethod
    def loads(self, version: int, *, at: Standing) -> bool:
        """Whether the engine is given this version now; they come in order.

        So is what parts are told of the update that made it.
        """

    @abstractmethod
    def opens(self, at: Standing) -> bool:
        """Whether one more batch is begun now."""

    def closes(self, at: Standing) -> int | None:
        """Which of the batches that are complete is learned from next; None waits."""
        return at.done[0] if at.done else None

    def drops(self, at: Standing) -> Sequence[int]:
        """Batches in the making that have become too old to be learned from."""
        return ()


class Work(BatchSource, Protocol):
    """The run behind the trainer, piece by piece. It is called by one thread at a time."""

    @property
    def pipeline(self) -> Pipeline:
        """Makes batches."""
        ...

    def goes_on(self) -> bool:
        """Evaluates the policy in the engine where it is due; whether a batch may be begun."""
        ...

    def paused(self) -> bool:
        """Whether the run has come to where it stops for now."""
        ...

    def made(self, batch: RolloutBatch) -> None:
        """Takes down a batch that the trainer will be given."""
        ...

    def hold(self, batch: RolloutBatch) -> None:
        """Takes up a batch that was made before a checkpoint, and not learned from."""
        ...

    def masked(self, kept: Mapping[str, Bools], *, update: int | None = None) -> None:
        """See `Pipeline.masked`."""
        ...
