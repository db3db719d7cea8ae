"""Makes SIGINT and SIGTERM (a scheduler's preemption) end a run in order, so that it can resume."""

import os
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, final


@final
class Interrupted(KeyboardInterrupt):
    """Raised where a signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.paused: Mapping[str, Any] | None = None
        """The result of the run that was interrupted, if there was one."""


@final
class Heard:
    """Handles signals, and remembers the first one."""

    number: int | None = None

    def asked(self) -> bool:
        """Tells whether a signal asked to end, even if a library has swallowed the exception."""
        return self.number is not None

    def check(self) -> None:
        """Raises the exception again if a library has swallowed it.

        Raises:
            Interrupted: a signal was heard.
        """
        if self.number is not None:
            raise Interrupted(self.number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raises `Interrupted` in the main thread; a second SIGINT ends the process at once.

        Further SIGTERMs change nothing: their sender ends what takes too long by SIGKILL.
        """
        if self.number is None:
            self.number = number
            raise Interrupted(number)
        if number == signal.SIGINT:
            # The default action ends the process at once, and no library can swallow it.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextmanager
def interruptible() -> Generator[Heard]:
    """Makes SIGINT and SIGTERM raise `Interrupted` within; works in the main thread only.

    A signal that the process was started to ignore (`nohup`, background jobs) stays ignored.
    """
    heard = Heard()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    before = {n: h for n in numbers if (h := signal.getsignal(n)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, heard)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
