"""Processes that train together: rank 0 has the run, the others train on what it hands them.

Rank 0 speaks to them over a gloo group of its own without a deadline, for it may generate for
hours between two words. Gradients go the way that accelerate has set up.
"""

import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor, distributed

from gfcr.errors import GfcrError, TrainingError
from gfcr.process.environment import load
from gfcr.process.launched import place
from gfcr.train.base import TrainJob
from gfcr.types import Bools, RolloutBatch

Item = TypeVar("Item")
dist: Final[Any] = distributed  # its types are partial
_PATIENCE: Final = timedelta(days=365)


@final
class Ranks:
    """The processes that train together, as one of them sees them."""

    def __init__(self, *, rank: int = 0, size: int = 1, group: Any = None) -> None:
        """One alone, or a member of a group of `torch.distributed` that carries objects."""
        self.rank, self.size, self._group = rank, size, group

    @property
    def leads(self) -> bool:
        """Whether this process has the run."""
        return self.rank == 0

    def deal(self, items: Sequence[Item]) -> Item:
        """Hands each process its item, and returns this one's. Rank 0's, see `hear`."""
        if self.size == 1:
            return items[0]
        return self._scattered(list(items))

    def tell(self, word: object) -> None:
        """Says the same to all."""
        self.deal([word] * self.size)

    def hear(self) -> Any:
        """Waits for what rank 0 deals or tells."""
        return self._scattered(None)

    def _scattered(self, items: list[Any] | None) -> Any:
        own: list[Any] = [None]
        dist.scatter_object_list(own, items, src=0, group=self._group)
        return own[0]

    def attend(self, trainer: Any) -> Any:
        """Does what rank 0 asks for meanwhile, until it deals or tells something else: that."""
        while isinstance(word := self.hear(), Ask):
            word.answer(trainer, ranks=self)
        return word

    def collect(self, item: Item) -> list[Item]:
        """Every process's item, on all of them, in the order of ranks; all call it."""
        if self.size == 1:
            return [item]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, item, group=self._group)
        return found

    def wait(self) -> None:
        """Waits until all are here."""
        self.collect(None)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of all processes' tensors, on the CPU; all call it."""
        return torch.stack(self.collect(values.cpu())).sum(0)

    @contextmanager
    def together(self) -> Generator[None]:
        """What training fails by on one process ends it on all, in the same words; all call it.

        Raises:
            TrainingError: raised within, here or elsewhere.
        """
        said: TrainingError | None = None
        try:
            yield
        except TrainingError as error:
            said = error
        told = [words for words in self.collect(str(said) if said else None) if words is not None]
        if told:
            raise said or TrainingError(told[0])

    @contextmanager
    def losses_told(self) -> Generator[None]:
        """Says that another process has ended, where that is what a call between them failed by.

        Raises:
            GfcrError: in the place of PyTorch's error.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _of_a_peer(error):
                raise
            raise GfcrError(
                f"another of the {self.size} processes that train together has ended: its words, "
                "or the launcher's, say why. The same command goes on from the last checkpoint."
            ) from error


ALONE: Final = Ranks()


class Ask(ABC):
    """What rank 0 deals when it needs the others between two updates."""

    @abstractmethod
    def answer(self, trainer: Any, *, ranks: Ranks) -> Any:
        """Does this process's part; all call it.

        Args:
            trainer: TRL's.
            ranks: the processes.
        """


def _of_a_peer(error: RuntimeError) -> bool:
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


@final
class Deaf:
    """See `train.base.BatchSource`: what a process that only trains has in its place."""

    def next_batch(self) -> RolloutBatch | None:
        """Never asked: rank 0 deals."""
        raise AssertionError("only rank 0 has batches")

    def sync(self, weights: object, *, version: int) -> None:
        """Has no engine."""

    def masked(self, kept: Mapping[str, Bools]) -> None:
        """Keeps no books."""

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps no records."""

    def state_dict(self) -> dict[str, Any]:
        """Has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has no state."""


def never() -> bool:
    """Rank 0 says when to stop."""
    return False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What rank 0 wants trained."""

    train: Callable[..., Any]
    """Called by all processes alike, with a job and `found`, the checkpoint to go on from."""
    job: TrainJob
    found: Path | None

    def told(self) -> "Order":
        """Without what is rank 0's alone."""
        job = replace(self.job, source=Deaf(), correction=None, should_stop=never)
        return replace(self, job=job)

    def __call__(self) -> Any:
        """Trains, and returns the policy."""
        return self.train(self.job, found=self.found)


@cache
def joined() -> Ranks:
    """The processes launched with this one, once all of them have called this."""
    where = place()
    if where.size == 1:
        return ALONE
    if not torch.accelerator.is_available():
        os.environ["ACCELERATE_USE_CPU"] = "true"  # else accelerate sees one process
    from accelerate import PartialState  # pyright: ignore[reportMissingTypeStubs]

    untyped: Any = PartialState
    untyped(cpu=not torch.accelerator.is_available())
    group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return Ranks(rank=where.rank, size=where.size, group=group)


def dismiss() -> None:
    """Tells the others that the run has ended; rank 0's last word."""
    joined().tell(None)


def follow(command: str, *, libraries: Iterable[str] = ()) -> int:
    """Trains what rank 0 orders until it dismisses this process; returns an exit code.

    Signals are rank 0's to answer: the launcher sends them to all.

    Args:
        command: of gfcr, for messages.
        libraries: to import meanwhile.
    """
    load(libraries)  # rank 0 has them when its clock begins
    ranks = joined()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        with ranks.losses_told():
            while (order := ranks.hear()) is not None:
                order()
        return 0
    except Exception as error:
        kind = "" if isinstance(error, GfcrError) else f"{type(error).__name__}: "
        print(f"gfcr {command}: process {ranks.rank}: {kind}{error}", file=sys.stderr, flush=True)
        return 2 if isinstance(error, GfcrError) else 1
