"""`python -m gfcr.launch.child PARENT CORES ARGUMENTS`: the command line, ended with its parent."""

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

_POLL_S = 0.5
_GRACE_S = 15.0


def main() -> None:
    """Runs `gfcr ARGUMENTS`."""
    parent, cores, *arguments = sys.argv[1:]
    if cores != "all":
        _confine([int(core) for core in cores.split(",")])
    threading.Thread(target=_follow, args=(int(parent),), daemon=True).start()
    sys.argv = ["gfcr", *arguments]
    runpy.run_module("gfcr", run_name="__main__", alter_sys=True)


def _confine(cores: Sequence[int]) -> None:
    """Confines this process, and all that it starts, to some cores, and computes with as many."""
    os.sched_setaffinity(0, cores)
    if (torch := sys.modules.get("torch")) is not None:  # of the process this one was forked from
        loaded: Any = torch
        loaded.set_num_threads(len(cores))


def _follow(parent: int) -> None:
    # Polled: the kernel's own signal for this exists on Linux only, and ends with a thread.
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
