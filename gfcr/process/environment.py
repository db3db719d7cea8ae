"""The environment in which a process of gfcr loads its libraries."""

import gc
import logging
import os
import sys
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final
from unittest.mock import patch

from gfcr.process.launched import unlaunched

_DEFAULTS: Final = {
    # Threads that spin while they wait slow down whoever shares their cores, several times over.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Large pages: small ones took three quarters of a log-softmax over 262,144 tokens.
    "THP_MEM_ALLOC_ENABLE": "1",
    # Triton multiplies float32 as TF32 otherwise: log-probs were off by up to 0.09 nats on a GPU.
    "TRITON_F32_DEFAULT": "ieee",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_LOGS": "-all",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # Quiet, as what fails is raised too; without a thread of its own; quick to miss a store.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def settle(*, level: int = logging.ERROR) -> None:
    """Sets up this process, before its first library: quiet logs, and threads that wait asleep.

    Args:
        level: lowest level of log messages that go to stderr.
    """
    set_defaults()
    logging.basicConfig(level=level, format="%(message)s")


def set_defaults() -> None:
    """Sets environment variables that libraries read when imported, unless the user has."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def load(libraries: Iterable[str]) -> None:
    """Imports libraries quietly, skipping missing ones: these are reported where they are used."""
    set_defaults()
    wanted = [library for library in libraries if library not in sys.modules]
    collecting = gc.isenabled()
    gc.disable()  # collecting meanwhile takes a quarter of the time of importing vLLM
    try:
        with warnings.catch_warnings(action="ignore"):  # of their own dependencies
            for library in wanted:
                with suppress(ImportError):
                    import_module(library)
    finally:
        if wanted:
            gc.freeze()  # libraries stay; collecting them takes a second each time
            gc.set_threshold(50_000)  # a single batch is that many objects
        if collecting:
            gc.enable()


@contextmanager
def left_frozen() -> Generator[None]:
    """Keeps libraries, such as vLLM, from freezing or thawing objects that `load` has frozen."""
    with patch.multiple(gc, freeze=lambda: None, unfreeze=lambda: None):
        yield


def environment(*, threads: int | None = None) -> Mapping[str, str]:
    """Returns environment variables for a child process that runs a module of this gfcr.

    Args:
        threads: number of OpenMP threads; None leaves it to the process.
    """
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
    count = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**_DEFAULTS, **unlaunched(os.environ), "PYTHONPATH": path, **count}
