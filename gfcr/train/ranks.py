"""Processes that train together: rank 0 runs everything else and deals samples to the others.

Rank 0 talks to them over a gloo group of its own, without a deadline, since it may generate for
hours between two messages. Gradients go over the group that accelerate has set up.
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
from typing import Any, Final, TypeVar, cast, final

import torch
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

from gfcr.errors import GfcrError, TrainingError
from gfcr.process.environment import load
from gfcr.process.launched import place
from gfcr.train.base import TrainJob, unheard

Item = TypeVar("Item")
dist: Final[Any] = distributed  # its types are partial
_PATIENCE: Final = timedelta(days=365)


@final
class Ranks:
    """The processes that train together, as one of them sees them."""

    def __init__(self, *, rank: int = 0, size: int = 1, group: Any = None) -> None:
        """Takes the place in a `torch.distributed` group that carries objects; alone by default."""
        self.rank, self.size, self._group = rank, size, group

    @property
    def leads(self) -> bool:
        """Returns whether this process is rank 0, which has the run."""
        return self.rank == 0

    def deal(self, items: Sequence[Item]) -> Item:
        """Sends each process its item, and returns rank 0's; the others call `hear` for theirs."""
        if self.size == 1:
            return items[0]
        return self._scattered(list(items))

    def tell(self, word: object) -> None:
        """Sends the same object to all processes."""
        self.deal([word] * self.size)

    def hear(self) -> Any:
        """Waits for the next object that rank 0 deals or tells, and returns it."""
        return self._scattered(None)

    def _scattered(self, items: list[Any] | None) -> Any:
        own: list[Any] = [None]
        dist.scatter_object_list(own, items, src=0, group=self._group)
        return own[0]

    def attend(self, trainer: Any) -> Any:
        """Answers rank 0's `Ask`s until it sends something else, and returns that."""
        while isinstance(word := self.hear(), Ask):
            word.answer(trainer, ranks=self)
        return word

    def collect(self, item: Item) -> list[Item]:
        """Gathers every process's item, in the order of ranks; all processes must call it."""
        if self.size == 1:
            return [item]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, item, group=self._group)
        return found

    def wait(self) -> None:
        """Waits until all processes have called this."""
        self.collect(None)

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum of all processes' tensors, on the CPU; all must call it."""
        # All add in the order of ranks, and so have the same sum to the last bit.
        return torch.stack(self.collect(values.cpu())).sum(0)

    @contextmanager
    def together(self) -> Generator[None]:
        """Raises a TrainingError of one process on all of them; all must call it.

        Raises:
            TrainingError: it was raised inside, by this process or another.
        """
        said: TrainingError | None = None
        try:
            yield
        except TrainingError as error:
            said = error
        # Only words are sent, as an error may hold what cannot be.
        told = [words for words in self.collect(str(said) if said else None) if words is not None]
        if told:
            raise said or TrainingError(told[0])

    @contextmanager
    def losses_told(self) -> Generator[None]:
        """Replaces errors of collective calls that failed because another process has ended.

        Raises:
            GfcrError: another process has ended.
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
    """A request of rank 0 to the other processes, between two updates."""

    @abstractmethod
    def answer(self, trainer: Any, *, ranks: Ranks) -> Any:
        """Does this process's part of the request; all processes call it.

        Args:
            trainer: the TRL trainer of this process.
            ranks: the processes that train together.
        """


def whole(model: nn.Module, *, ranks: Ranks) -> Mapping[str, Tensor]:
    """Gathers the policy's weights for rank 0, which calls this; the others `attend` meanwhile.

    Weights that are sharded (FSDP2) are gathered on the CPU, and all processes have finished with
    it when this returns: one still waiting for another while rank 0 waits for a server would hang
    both.
    """
    if not any(isinstance(p, DTensor) for p in model.parameters()):
        return dict(model.named_parameters())
    ranks.tell(Gather())
    return _gathered(model, ranks=ranks)


@final
@dataclass(frozen=True, slots=True)
class Gather(Ask):
    """Asks every process for its shard of the weights."""

    def answer(self, trainer: Any, *, ranks: Ranks) -> None:
        _gathered(trainer.model, ranks=ranks)


@torch.no_grad()
def _gathered(model: nn.Module, *, ranks: Ranks) -> Mapping[str, Tensor]:
    kept: dict[str, Tensor] = {}
    for name, share in model.named_parameters():
        # Every process takes part in each gather, also one that keeps nothing of it.
        full = share.full_tensor() if isinstance(share, DTensor) else share
        if ranks.leads:
            kept[name] = full.cpu()
    ranks.wait()
    return kept


def _of_a_peer(error: RuntimeError) -> bool:
    if isinstance(error, GfcrError):  # it may quote a server, which has such words
        return False
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A call of the trainer that rank 0 sends to all processes."""

    train: Callable[..., Any]
    """Called by all processes alike, with a job and `found`, the checkpoint to resume from."""
    job: TrainJob
    found: Path | None

    def told(self) -> "Order":
        """Returns the order without what only rank 0 may have."""
        # Rank 0 deals the samples and decides when to stop.
        none = cast("Any", None)
        heard = dict.fromkeys(("should_stop", "record", "say"), unheard)
        job = replace(self.job, source=none, correction=None, **heard)
        return replace(self, job=job)

    def __call__(self) -> None:
        self.train(self.job, found=self.found)


@cache
def joined() -> Ranks:
    """Returns the processes launched with this one, once all of them have called this."""
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


def follow(command: str, *, libraries: Iterable[str] = ()) -> int:
    """Trains what rank 0 orders until it tells None; returns an exit code.

    Signals are ignored: the launcher sends them to all processes, and rank 0 answers them.

    Args:
        command: the gfcr command that was launched, for messages.
        libraries: modules to import before rank 0 needs them.
    """
    load(libraries)  # rank 0 has imported them when its clock starts
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
