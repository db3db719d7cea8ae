"""`python -m gfcr.launch.child PARENT ARGUMENTS`: the command line, ended with its parent."""

import os
import runpy
import signal
import sys
import threading
import time

_POLL_S = 0.5
_GRACE_S = 15.0


def main() -> None:
    """Runs `gfcr ARGUMENTS`."""
    parent, *arguments = sys.argv[1:]
    threading.Thread(target=_follow, args=(int(parent),), daemon=True).start()
    sys.argv = ["gfcr", *arguments]
    runpy.run_module("gfcr", run_name="__main__", alter_sys=True)


def _follow(parent: int) -> None:
    # Polled: the kernel's own signal for this exists on Linux only, and ends with a thread.
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
