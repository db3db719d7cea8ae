"""Cores of this machine, divided between training and the servers that generate beside it."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from gfcr.process.launched import place

SERVERS: Final = "GFCR_SERVER_CORES"
"""In the environment: those that servers started on this machine compute on, with commas."""
_THREADS: Final = "OMP_NUM_THREADS"


def accelerated() -> bool:
    """Whether torch is built for more than a CPU."""
    try:
        return not version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return False


def confine(cores: Iterable[int]) -> None:
    """Confines this process, and all that it starts, to some cores, and computes with as many."""
    own = {*cores}
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), own)
    if (torch := sys.modules.get("torch")) is not None:  # else it counts them as it is loaded
        loaded: Any = torch
        loaded.set_num_threads(len(own))


@contextmanager
def apart(*, servers: int) -> Generator[None]:
    """In here this process computes on one half of its cores, servers that it starts on the other.

    Side by side on the same cores, each would wait for the other's threads at every operation. An
    odd core is the trainer's. Nothing is divided on one core, where an accelerator computes, beside
    other processes that train, or where the user says how many threads there are.

    Args:
        servers: how many it starts on this machine.
    """
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    if not servers or len(cores) < 2 or accelerated() or place().size > 1 or _THREADS in os.environ:
        yield
        return
    half = (len(cores) + 1) // 2
    with within(cores[:half]), servers_on(",".join(map(str, cores[half:]))):
        yield


@contextmanager
def within(cores: Iterable[int]) -> Generator[None]:
    """In here this process, and what it starts, computes on some cores."""
    before = os.sched_getaffinity(0)
    try:
        confine(cores)
        yield
    finally:
        confine(before)


@contextmanager
def servers_on(numbers: str, **besides: str) -> Generator[None]:
    """In here servers that are started compute on some cores.

    Args:
        numbers: of the cores, with commas; empty: any.
        besides: more that their environment says.
    """
    told = {SERVERS: numbers, **besides} if numbers else besides
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


def told() -> list[int]:
    """The cores that a server is to compute on; empty: all."""
    return [int(core) for core in os.environ.get(SERVERS, "").split(",") if core]
