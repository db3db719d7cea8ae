"""What a process of gfcr has in its environment before it loads a library."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_DEFAULTS: Final = {
    # Threads that wait must not spin: beside any other process on the same cores, OpenMP's spinning
    # makes a run several times slower. Read when torch is loaded, so it is set before.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


def settle(*, level: int = logging.ERROR) -> None:
    """Settles this process: quiet libraries, patient threads. Before the first of them is loaded.

    Args:
        level: of what is logged to stderr.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.basicConfig(level=level, format="%(message)s")


def environment(*, threads: int | None = None) -> Mapping[str, str]:
    """Returns the variables of a process that runs a module of this gfcr, installed or not.

    Args:
        threads: that it computes with; None for as many as it would take by itself.
    """
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
    count = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**_DEFAULTS, **os.environ, "PYTHONPATH": path, **count}
