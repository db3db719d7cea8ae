"""Says which process this is, so that another one can tell later whether it still lives."""

import socket
import time
from collections.abc import Mapping
from typing import Any, Final

import psutil

_CLOCK_S: Final = 2.0
"""What the start of one process may differ by, told at two times: clocks are set in between."""


def whose() -> dict[str, Any]:
    """Returns who this process is: its machine, id and start, and the time now.

    An id is given again to later processes; they start later.
    """
    own = psutil.Process()
    started = own.create_time()
    return {"pid": own.pid, "host": socket.gethostname(), "since": time.time(), "started": started}


def is_alive(who: Mapping[str, Any]) -> bool:
    """Tells whether the process that said this of itself is one of this machine, and lives."""
    if who.get("host") != socket.gethostname():
        return False
    try:
        found = psutil.Process(who["pid"])
        same = abs(found.create_time() - who["started"]) < _CLOCK_S
        return same and found.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except (psutil.Error, KeyError, TypeError, ValueError):  # gone, or nobody said who it was
        return False
