"""Locks a folder for its one writer; the kernel frees the lock of a process that is killed.

The lock lies beside the folder, not in it, so that a folder moved away takes no lock along. It is
made by `flock`: on a network file system it holds between machines where that file system keeps
locks (NFS 4, or NFS 3 with lockd).

Somebody may remove the lock file while it is held. The holder then finds it gone, by the check that
`locked` gives, and whoever comes next finds the holder named in the note beside it, or in the run's
own record (`refuse_if_running`), as long as that process lives.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import psutil
from filelock import FileLock, Timeout

from gfcr.errors import FolderInUse, FolderLost, GfcrError

_LOOK_S: Final = 0.1
"""Seconds within which whoever only looks at a lock has let go of it."""
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


@contextmanager
def locked(folder: Path | str, *, patience_s: float = 0.0) -> Generator[Callable[[], None]]:
    """Holds the lock of a run folder, or of a trainer's output folder; it need not exist yet.

    It gives a check that the lock file is still the one that was locked, which raises `FolderLost`
    where it was removed, or is another one.

    Args:
        folder: the folder that is written to.
        patience_s: seconds to wait until its present holder ends.

    Raises:
        FolderInUse: another process, or another call in this one, holds it.
        GfcrError: the lock file cannot be written.
    """
    lock, holder = _files(folder)
    # `is_locked` holds the lock for an instant, at which another process is not to be refused.
    held = FileLock(lock, timeout=max(patience_s, _LOOK_S))
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:
        told = _in_use(folder, who=_noted(holder), patience_s=patience_s)
        raise FolderInUse(told) from None
    except OSError as error:
        raise GfcrError(
            f"{lock} cannot be locked ({error}): give a folder that you may write to, on a file "
            "system that keeps locks."
        ) from error
    try:
        # A holder whose lock file was removed is still named here, and lives.
        refuse_if_alive(folder, by=_noted(holder))
        _note(holder)
        yield partial(_check, lock, inode=_inode(lock))
    finally:
        with suppress(OSError):
            # Before the lock is released, as the next holder writes its own note there.
            if (_noted(holder) or {}).get("pid") == os.getpid():
                holder.unlink()
        held.release()


def refuse_if_alive(folder: Path | str, *, by: Mapping[str, Any] | None) -> None:
    """Refuses a folder that another process of this machine writes to, by what it said of itself.

    Args:
        folder: the folder.
        by: what `whose` gave in that process, None where nobody has said so.

    Raises:
        FolderInUse: that process lives, and is another one than this.
    """
    if by is not None and by.get("pid") != os.getpid() and is_alive(by):
        raise FolderInUse(_in_use(folder, who=by, patience_s=0.0))


def refuse_if_running(folder: Path | str) -> None:
    """Refuses a run that another process of this machine runs, by what its record says.

    Raises:
        FolderInUse: its status is `running`, and the process that wrote it lives.
    """
    held = _noted(Path(folder) / "status.json") or {}
    if held.get("status") == "running" and isinstance(held.get("by"), dict):
        refuse_if_alive(folder, by=held["by"])


def refuse_if_locked(folder: Path | str) -> None:
    """Refuses a locked folder as `locked` would, without waiting or taking the lock.

    Raises:
        FolderInUse: another process holds it.
    """
    who = _noted(_files(folder)[1])
    if is_locked(folder):
        raise FolderInUse(_in_use(folder, who=who, patience_s=0.0))
    refuse_if_alive(folder, by=who)


def is_locked(folder: Path | str) -> bool:
    """Tells whether another process writes to the folder now."""
    lock, _ = _files(folder)
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            # The lock is shared, so that who looks at the same moment is not taken for a holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # which of the two depends on the file system
            return True
    return False


def _files(folder: Path | str) -> tuple[Path, Path]:
    place = Path(folder).resolve()
    return place.with_name(f"{place.name}.lock"), place.with_name(f"{place.name}.holder.json")


def _check(lock: Path, *, inode: tuple[int, int] | None) -> None:
    if (now := _inode(lock)) == inode:
        return
    what = "was removed" if now is None else "was removed and made anew"
    raise FolderLost(
        f"{lock} {what} while this process held its folder by it: it stops here, so that no two "
        "write there. Leave lock files in place, see that nobody else writes to the folder, then "
        "run the same command again."
    )


def _inode(file: Path) -> tuple[int, int] | None:
    """Returns what tells a file from another of its name; None where there is none."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _note(holder: Path) -> None:
    with suppress(OSError):  # only for the message; whatever is full or read-only is said later
        holder.write_text(json.dumps(whose()) + "\n", encoding="utf-8")


def _noted(holder: Path) -> dict[str, Any] | None:
    """Returns what the holder of a folder said of itself; None where that cannot be read."""
    try:
        found = json.loads(holder.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _in_use(folder: Path | str, *, who: Mapping[str, Any] | None, patience_s: float) -> str:
    named = "another process"
    with suppress(KeyError, TypeError, ValueError):
        if who is not None:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who["since"]))
            named = f"process {who['pid']} on {who['host']}, since {since}"
    waited = f" after {patience_s:g} s" if patience_s else ""
    return (
        f"{folder} is in use by {named}{waited}: two writers would damage it. Wait for that one or "
        "end it, then run this command again; or give another folder. Nothing was written."
    )
