"""Division of this machine's cores among the trials of a study."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import psutil

from gfcr import models, registry
from gfcr.process.cores import accelerated

Parallel: TypeAlias = int | Literal["auto"]

SMALL: Final = 8 << 20
"""Bytes of weights up to which a second core hardly shortens an update: measured at half of it."""
_FIXED: Final = 3 << 30
"""Bytes of a trial without its model: libraries, and the engine's default cache of 1 GiB."""
_COPIES: Final = 6
"""Copies of the weights: engine, trainer, gradients, Adam's two moments, and one being synced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The cores of the trials that run at the same time."""

    cores: tuple[frozenset[int], ...]
    """Cores of each trial that runs at a time; an empty set does not confine the trial."""
    why: str

    @property
    def at_once(self) -> int:
        """Number of trials that run at a time."""
        return len(self.cores)

    def __str__(self) -> str:
        each = min(map(len, self.cores))
        cores = f", {_count(each, 'core')} each" if each else ""
        return f"{_count(self.at_once, 'trial')} at a time{cores}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The cores, memory and accelerators of a machine."""

    cores: Sequence[int]
    """Cores that this process may use."""
    memory: int
    """Bytes of memory that processes may still take."""
    accelerated: bool
    """Whether torch is built for an accelerator."""
    quota: int | None = None
    """How many cores a container's time is limited to; None without such a limit."""

    @classmethod
    def here(cls) -> "Machine":
        """Reads the properties of this machine."""
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores=cores, memory=_memory(), accelerated=accelerated(), quota=_quota())


def share(weights: int | None, *, parallel: Parallel, machine: Machine) -> Share:
    """Divides the machine's cores among trials that run at the same time.

    `auto` runs small models side by side, one core each, as many as there are cores and memory.
    The number of trials left does not matter, so that all seconds of a study are of one core. A
    larger model runs alone, and so does any trial on a machine with an accelerator.

    Args:
        weights: bytes of the largest model of a trial; 0 without one, None if it is not known.
        parallel: trials at a time, among which the cores are divided evenly, or `auto`.
        machine: the machine to divide.
    """
    if parallel != "auto":
        cores = machine.cores if 1 < parallel <= len(machine.cores) else ()
        sets = (frozenset(cores[i::parallel]) for i in range(parallel))
        return Share(cores=tuple(sets), why=f"launcher.parallel={parallel}")
    alone = (frozenset[int](),)
    if machine.accelerated:
        return Share(cores=alone, why="torch is built for an accelerator")
    if weights is None or weights > SMALL:
        told = "of unknown size" if weights is None else f"of {weights / 2**20:,.0f} MiB"
        return Share(cores=alone, why=f"a model {told} computes with all cores")
    room = max(1, machine.memory // (_FIXED + _COPIES * weights)) if weights else None
    own = tuple(frozenset({core}) for core in machine.cores[:room][: machine.quota])
    return Share(cores=own, why="the model is small" if weights else "there is no model")


def largest(configs: Iterable[Mapping[str, Any]]) -> int | None:
    """Returns the bytes of the largest model of some trials; 0 without one, None if not known."""
    found = set[int | None]()
    for config in configs:
        made: Any = registry.find("engine", str(config["engine"]["name"]))
        found.add(models.weights_of(str(config["model"])) if made.needs_model else 0)
    return None if None in found else max((size for size in found if size), default=0)


def _quota() -> int | None:
    file = Path("/sys/fs/cgroup/cpu.max")
    most, _, period = (file.read_text() if file.is_file() else "max ").partition(" ")
    return None if most == "max" else max(1, int(most) // int(period))


def _memory() -> int:
    free = psutil.virtual_memory().available
    # In a container the machine's free memory says nothing of the container's own limit.
    names = ("max", "current", "stat")
    places = (Path(f"/sys/fs/cgroup/memory.{name}") for name in names)
    limit, used, stat = (place.read_text() if place.is_file() else "" for place in places)
    if limit.strip() in ("", "max"):
        return free
    # Files that were read are counted too, and are let go of when something wants the memory.
    held = dict(line.split() for line in stat.splitlines())
    files = sum(int(held.get(name, 0)) for name in ("inactive_file", "active_file"))
    return min(free, int(limit) - int(used or 0) + files)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
