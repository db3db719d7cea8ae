"""Division of this machine's cores between training and the servers that generate beside it."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from gfcr.process.launched import place

SERVERS: Final = "GFCR_SERVER_CORES"
"""Environment variable with the core numbers, comma-separated, for servers started here."""
_THREADS: Final = "OMP_NUM_THREADS"


def accelerated() -> bool:
    """Returns whether torch is built for an accelerator."""
    try:
        return not version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return False


def confine(cores: Iterable[int], *, threads: int | None = None) -> None:
    """Confines this process and its future children to some cores.

    Args:
        cores: numbers of the cores.
        threads: number of torch's threads; None is one for each core.
    """
    own = {*cores}
    # Affinity is a thread's own on Linux: threads that run already would stay where they are.
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), own)
    if (torch := sys.modules.get("torch")) is not None:  # else it counts them as it is loaded
        loaded: Any = torch
        # Beside vLLM in this process it does nothing: what a trial makes is the same on any cores.
        loaded.set_num_threads(threads or len(own))


@contextmanager
def own_threads() -> Generator[None]:
    """Gives torch back the number of threads it had before an engine was started.

    numba, with which vLLM finds n-grams, gives OpenMP a thread for each core, whatever was set, as
    it starts its own. Else it would do so at the first draft, and what is sampled from there on,
    and after a resume, would be summed in another order.
    """
    torch: Any = sys.modules["torch"]
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        if (numba := sys.modules.get("numba")) is not None:
            numba.get_num_threads()  # starts them
        # vLLM's CPU worker has replaced `torch.set_num_threads` by one that does nothing.
        torch._C.set_num_threads(threads)


@contextmanager
def apart(*, servers: int) -> Generator[None]:
    """Confines this process to half of its cores, and servers that it starts to the other half.

    On shared cores each would wait for the other's threads at every operation. An odd core is the
    trainer's. Nothing is divided on one core, if an accelerator computes, beside other processes
    that train, or if the user has set the number of threads.

    Args:
        servers: number of servers that it starts on this machine.
    """
    cores = sorted(os.sched_getaffinity(0))
    if not servers or len(cores) < 2 or accelerated() or place().size > 1 or _THREADS in os.environ:
        yield
        return
    half = (len(cores) + 1) // 2
    with within(cores[:half]), servers_on(",".join(map(str, cores[half:]))):
        yield


@contextmanager
def within(cores: Iterable[int]) -> Generator[None]:
    """Confines this process, and what it starts, to some cores while the context is open."""
    before, torch = os.sched_getaffinity(0), sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None
    try:
        confine(cores)
        yield
    finally:
        confine(before, threads=threads)


@contextmanager
def servers_on(numbers: str, **besides: str) -> Generator[None]:
    """Confines servers that are started while the context is open to some cores.

    Args:
        numbers: core numbers, comma-separated; empty: any cores.
        besides: further environment variables for these servers.
    """
    told = {SERVERS: numbers, **besides} if numbers else besides
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


def told() -> list[int]:
    """Returns the cores that a server is to compute on; empty: all."""
    return [int(core) for core in os.environ.get(SERVERS, "").split(",") if core]
