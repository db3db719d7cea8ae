"""Locks a folder for its one writer; the kernel frees the lock of a process that is killed.

The lock lies beside the folder, not in it, so that a folder moved away takes no lock along. It is
made by `flock`: on a network file system it holds between machines where that file system keeps
locks (NFS 4, or NFS 3 with lockd).
"""

import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from gfcr.errors import FolderInUse, GfcrError


@contextmanager
def locked(folder: Path | str, *, patience_s: float = 0.0) -> Generator[None]:
    """Holds the lock of a run folder, or of a trainer's output folder; it need not exist yet.

    Args:
        folder: the folder that is written to.
        patience_s: seconds to wait until its present holder ends.

    Raises:
        FolderInUse: another process, or another call in this one, holds it.
        GfcrError: the lock file cannot be written.
    """
    lock, holder = _files(folder)
    held = FileLock(lock, timeout=patience_s)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:
        raise FolderInUse(_in_use(folder, holder=holder, patience_s=patience_s)) from None
    except OSError as error:
        raise GfcrError(
            f"{lock} cannot be locked ({error}): give a folder that you may write to, on a file "
            "system that keeps locks."
        ) from error
    try:
        _note(holder)
        yield
    finally:
        with suppress(OSError):
            # Before the lock is released, as the next holder writes its own note there.
            holder.unlink()
        held.release()


def refuse_if_locked(folder: Path | str) -> None:
    """Refuses a locked folder as `locked` would, without waiting or taking the lock.

    Raises:
        FolderInUse: another process holds it.
    """
    if is_locked(folder):
        raise FolderInUse(_in_use(folder, holder=_files(folder)[1], patience_s=0.0))


def is_locked(folder: Path | str) -> bool:
    """Tells whether another process writes to the folder now."""
    lock, _ = _files(folder)
    if not lock.exists():
        return False
    try:
        with FileLock(lock, blocking=False):
            return False
    except Timeout:
        return True


def _files(folder: Path | str) -> tuple[Path, Path]:
    place = Path(folder).resolve()
    return place.with_name(f"{place.name}.lock"), place.with_name(f"{place.name}.holder.json")


def _note(holder: Path) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    with suppress(OSError):  # only for the message; whatever is full or read-only is said later
        holder.write_text(json.dumps(who) + "\n", encoding="utf-8")


def _in_use(folder: Path | str, *, holder: Path, patience_s: float) -> str:
    try:
        who = json.loads(holder.read_text("utf-8"))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who["since"]))
        named = f"process {who['pid']} on {who['host']}, since {since}"
    except (OSError, ValueError, KeyError, TypeError):
        named = "another process"
    waited = f" after {patience_s:g} s" if patience_s else ""
    return (
        f"{folder} is in use by {named}{waited}: two writers would damage it. Wait for that one or "
        "end it, then run this command again; or give another folder. Nothing was written."
    )
