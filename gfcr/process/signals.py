"""SIGINT and SIGTERM (a scheduler's preemption) end what runs in order, so that it can go on."""

import os
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, final


@final
class Interrupted(KeyboardInterrupt):
    """A signal asked to end."""

    def __init__(self, number: int) -> None:
        """Makes one of the signal's number."""
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.paused: Mapping[str, Any] | None = None
        """How the run that it met stands, where it met one."""


@final
class Heard:
    """The signal that was heard, if any."""

    number: int | None = None

    def asked(self) -> bool:
        """Whether a signal asked to end: a library may have swallowed the exception."""
        return self.number is not None

    def check(self) -> None:
        """Raises what was swallowed.

        Raises:
            Interrupted: a signal was heard.
        """
        if self.number is not None:
            raise Interrupted(self.number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raises `Interrupted` where the main thread is; a second SIGINT ends the process there.

        Further SIGTERMs change nothing: whoever sends them ends what takes too long by SIGKILL.
        """
        if self.number is None:
            self.number = number
            raise Interrupted(number)
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextmanager
def interruptible() -> Generator[Heard]:
    """Makes SIGINT and SIGTERM raise `Interrupted` within; only a main thread can hear them.

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
