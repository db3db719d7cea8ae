"""Says which process this is, so that another one can tell later whether it still lives."""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_STATE: Final = 2
_STARTED: Final = 21
"""Fields of /proc/PID/stat, counted from the process id."""


def whose() -> dict[str, Any]:
    """Returns who this process is: its machine, id and start, and the time now.

    An id is given again to later processes; its start, in ticks since the machine's, is not.
    """
    pid = os.getpid()
    start = {"started": _stat(pid)[_STARTED]} if _stat(pid) else {}
    return {"pid": pid, "host": socket.gethostname(), "since": time.time(), **start}


def is_alive(who: Mapping[str, Any]) -> bool:
    """Tells whether the process that said this of itself is one of this machine, and lives.

    False where that cannot be known: another machine's, or a system without /proc.
    """
    pid, started = who.get("pid"), who.get("started")
    if who.get("host") != socket.gethostname() or type(pid) is not int or started is None:
        return False
    found = _stat(pid)
    return bool(found) and found[_STARTED] == started and found[_STATE] not in ("Z", "X")


def _stat(pid: int) -> list[str]:
    """Returns the fields of a process, none where it is gone or the system has no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return []
    # Its second field, in parentheses, is a name that may hold spaces and parentheses.
    return [str(pid), "", *text.rpartition(")")[2].split()]
