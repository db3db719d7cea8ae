"""The standard streams of a command: progress may be read by nobody, the answer may not be lost.

What goes to stderr is progress: where it cannot be written (a reader that went away, a full disk, a
closed descriptor) it is dropped, and the work goes on. What goes to stdout is the answer: where it
cannot be written, the command says so.
"""

import io
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, final

OUT: Final = 1
"""The descriptor of stdout."""
ERR: Final = 2
"""The descriptor of stderr."""


@final
class _Dropping(io.FileIO):
    """A descriptor whose writes do not fail: from the first that does, it leads to /dev/null."""

    def write(self, data: Any, /) -> int:
        """Writes bytes, or drops them."""
        try:
            return super().write(data) or len(data)  # None: it is full, and does not wait
        except OSError:
            drop(self.fileno())
            return len(data)


def drop(descriptor: int) -> None:
    """Leads a descriptor to /dev/null, so that neither this process nor its children fail on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def sound() -> Generator[None]:
    """Makes the standard streams fit to be used: none missing, and stderr one that never fails.

    Where a program was started without one (`>&-`), the next file that it opens would take its
    number, and be written to as if it were that stream.
    """
    for descriptor in (0, OUT, ERR):
        if not _is_open(descriptor):
            # For reading alone: what is written to stdout fails, as it is to be told.
            os.open(os.devnull, os.O_WRONLY if descriptor == ERR else os.O_RDONLY)
            os.set_inheritable(descriptor, True)
    with ExitStack() as stack:
        stack.enter_context(_dropping("stderr", ERR))
        if sys.stdout is None:  # it was closed
            sys.stdout = os.fdopen(OUT, "w", closefd=False)
        yield


@contextmanager
def progress_only() -> Generator[None]:
    """Lets `print` of libraries go where stdout leads now, and never fail."""
    with _dropping("stdout", OUT):
        yield


@contextmanager
def _dropping(name: str, descriptor: int) -> Generator[None]:
    """Replaces a stream of `sys` that is the process's own; any other is read by somebody."""
    before: Any = getattr(sys, name)
    if before is not None and not _is_own(before, descriptor):
        yield
        return
    with suppress(OSError, ValueError, AttributeError):
        getattr(sys, name).flush()
    raw = io.BufferedWriter(_Dropping(descriptor, "w", closefd=False))
    written = getattr(before, "encoding", None) or "utf-8"
    made = io.TextIOWrapper(raw, encoding=written, errors="backslashreplace", line_buffering=True)
    setattr(sys, name, made)
    try:
        yield
    finally:
        made.flush()
        setattr(sys, name, before)


def _is_own(stream: Any, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):  # one that is no file
        return False


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
