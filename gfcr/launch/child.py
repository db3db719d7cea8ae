"""`python -m gfcr.launch.child PARENT LOCK ARGUMENTS`: the command line, tied to its parent.

It ends when the parent does, killed or not, and holds a lock: of two processes that are given the
same run folder (after a node was lost, or because two sweeps run the same study), the second waits
for the first.
"""

import json
import os
import runpy
import signal
import sys
import threading
import time

from filelock import FileLock, Timeout

_POLL_S = 0.5
_PATIENCE_S = 60.0


def main() -> int:
    """Runs `gfcr ARGUMENTS`."""
    parent, lock, *arguments = sys.argv[1:]
    threading.Thread(target=_follow, args=(int(parent),), daemon=True).start()
    try:
        with FileLock(lock, timeout=_PATIENCE_S):
            sys.argv = ["gfcr", *arguments]
            runpy.run_module("gfcr", run_name="__main__", alter_sys=True)
    except Timeout:
        print(json.dumps({"status": "failed", "error": _held(lock)}))
        return 1
    return 0


def _follow(parent: int) -> None:
    # Polled: the kernel's own signal for this exists on Linux only, and ends with a thread.
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10 * _POLL_S)
    os._exit(128 + signal.SIGTERM)


def _held(lock: str) -> str:
    return (
        f"another process has been running this trial for {_PATIENCE_S:g} s ({lock} is locked): "
        "wait for the other sweep of this study, or end it."
    )


if __name__ == "__main__":
    sys.exit(main())
