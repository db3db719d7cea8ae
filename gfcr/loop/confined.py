"""Calls in a process whose memory is limited and whose children do not outlive the call.

Each worker of `gfcr.loop.pool.ProcessPool` is a keeper: it forks one child that does the calls, one
after the other, and stays warm between them. All that a call starts is below the keeper, which
Linux makes the parent of orphans; it is killed when the call is over, has timed out or has died.
"""

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from math import inf
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Final, final

from gfcr.code import loose
from gfcr.errors import described

MOST_PROCESSES: Final = 64
"""The most processes that one call may have running at a time."""
MOST_BYTES: Final = 1 << 20
"""The largest pickled result, in bytes."""
_READY: Final = b""
"""What a child says once it has imported the code of a call."""

_LOOK_S: Final = 0.1
"""Seconds between two checks of the processes that a running call has started."""
_PDEATHSIG, _SUBREAPER = 1, 36
"""Option numbers of Linux's prctl."""


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    pipe: Any


_child: _Child | None = None
"""The child of this worker, or None before its first call."""


def pack(function: Callable[..., Any], *args: Any) -> bytes:
    """Packs a call as bytes, with the files of its loose modules, which have no importable name."""
    return pickle.dumps((dict(loose.files), pickle.dumps((function, args))))


def unpack(call: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Returns the call that `pack` has packed, in another process."""
    files, packed = pickle.loads(call)
    return _Unpickler(packed, files=files).load()


def keep() -> None:
    """Makes this process a keeper; must be called before its first call is run."""
    _prctl(_SUBREAPER, 1)
    _prctl(_PDEATHSIG, signal.SIGTERM)  # of the fork server: the caller is gone
    signal.signal(signal.SIGTERM, _leave)


def run(call: bytes, memory: int, seconds: float) -> bytes:
    """Does a packed call in the child; returns the pickled (result, error).

    Args:
        call: the bytes that `pack` returned.
        memory: the most bytes of data for the child, and for each process it forks.
        seconds: how long the call may take once its code is imported, which a new child has to do.
    """
    global _child
    child = _child = _child or _fork(memory)
    with contextlib.suppress(OSError):  # it died: seen below
        child.pipe.send_bytes(call)
    answer = _wait(child, seconds=inf)
    if answer == _READY:
        answer = _wait(child, seconds=seconds)
    if isinstance(answer, bytes):
        _kill_below(spare=child.pid)
        return answer
    ended = _end(child)
    return pickle.dumps((None, answer or f"its process died ({ended})"))


def _wait(child: _Child, *, seconds: float) -> bytes | str:
    """Returns the answer, or why there is none as text, which is empty where the child has died."""
    end = time.monotonic() + seconds
    while not child.pipe.poll(_LOOK_S):
        # What it left behind may hold the pipe open.
        if _state(child.pid) in ("Z", "") and not child.pipe.poll():
            return ""
        if len(list(_below(os.getpid()))) > MOST_PROCESSES:
            return f"it started more than {MOST_PROCESSES} processes and was killed"
        if time.monotonic() > end:
            return f"timed out after {seconds:g} s and was killed"
    try:
        return child.pipe.recv_bytes(2 * MOST_BYTES)
    except (EOFError, OSError):
        return ""


def _fork(memory: int) -> _Child:
    ours, theirs = Pipe()
    pid = os.fork()
    if pid:
        # The keeper sees that the child has closed its end only if it holds no copy of it.
        theirs.close()
        return _Child(pid, ours)
    try:
        _serve(theirs, memory=memory)
    finally:
        # The child is a copy of a pool's worker, and must never go on with that worker's loop.
        os._exit(0)


def _serve(pipe: Any, *, memory: int) -> None:
    """Answers calls in the child until the keeper is gone."""
    os.setsid()
    _prctl(_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    # The pool's own pipes would tell that the keeper lives as long as anything holds them.
    os.closerange(3, pipe.fileno())
    os.closerange(pipe.fileno() + 1, 4096)
    own = os.getpid()
    while True:
        answer = _answer(pipe, memory=memory)
        if os.getpid() != own:  # a fork of the call that came back with it
            os._exit(0)
        pipe.send_bytes(answer)


def _answer(pipe: Any, *, memory: int) -> bytes:
    # This raises once the keeper is gone, which ends the child: nobody is left to be told.
    call = pipe.recv_bytes()
    try:
        function, args = unpack(call)
        pipe.send_bytes(_READY)
        answer = pickle.dumps((function(*args), None))
    except MemoryError:
        return pickle.dumps((None, f"MemoryError: more than {memory / 2**30:g} GiB of data"))
    except BaseException as error:
        return pickle.dumps((None, described(error)))
    if len(answer) > MOST_BYTES:
        said = f"ValueError: a result of {len(answer):,} bytes, at most {MOST_BYTES:,} are allowed"
        return pickle.dumps((None, said))
    return answer


@final
class _Unpickler(pickle.Unpickler):
    """Unpickles objects of loose modules, which it loads from their files."""

    def __init__(self, packed: bytes, *, files: dict[str, str]) -> None:
        super().__init__(BytesIO(packed))
        self._files = files

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name in self._files:
            loose.load(Path(self._files[module_name]))
        return super().find_class(module_name, global_name)


# ---------------------------------------------------------------- ends


def _leave(number: int, frame: object) -> None:
    """Handles SIGTERM, by which the pool gives a call up: ends the child and leaves."""
    if _child is not None:
        _end(_child)
    os._exit(1)


def _end(child: _Child) -> str:
    """Kills the child and all processes it started; returns how the child ended."""
    global _child
    _child = None
    child.pipe.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # at once, however fast they fork
    _, status = os.waitpid(child.pid, 0)
    _kill_below()
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _kill_below(*, spare: int = 0) -> None:
    """Kills and reaps every process below this one except the child `spare`."""
    while left := [pid for pid in _below(os.getpid()) if pid != spare]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
        for pid in left:  # ours since its parent died, or still its parent's
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _below(pid: int) -> Iterator[int]:
    """Yields the living processes below `pid`."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text().split()):
                if _state(child) not in ("Z", ""):
                    yield child
                yield from _below(child)


def _state(pid: int) -> str:
    """Returns the state letter of a process as in ps: Z for a zombie, empty for one gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
