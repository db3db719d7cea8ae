"""A process that ends with the one that started it, however that one ends."""

import os
import signal
import threading
import time
from typing import Final

_POLL_S: Final = 0.5
_GRACE_S: Final = 15.0


def follow(parent: int) -> None:
    """Asks this process to end once its parent has ended, and kills it if it does not.

    Not by `prctl(PR_SET_PDEATHSIG)`: that signal comes when the *thread* ends that started the
    process, and on Linux only.

    Args:
        parent: the id of the process that started this one, as that one told it: it may have ended
            before this one could ask.
    """
    threading.Thread(target=_watch, args=(parent,), name="gfcr-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    if os.getpgrp() == os.getpid():  # what it started ends with it
        os.killpg(os.getpid(), signal.SIGKILL)
    # `sys.exit` would end this thread alone.
    os._exit(128 + signal.SIGTERM)
