"""A module of gfcr in a child process, which ends with the one that started it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from gfcr.process.environment import environment

LAST: Final = 5
"""Number of lines quoted from the end of a process's output."""
_POLL_S: Final = 0.5
_GRACE_S: Final = 15.0


def command(module: str, *, arguments: Sequence[str] = ()) -> list[str]:
    """Returns the command that runs a module with this Python."""
    return [sys.executable, "-m", module, *arguments]


def no_answer(said: str, *, code: int) -> str:
    """Describes the end of a process that gave no answer, with its last lines of output."""
    words = "\n".join(said.splitlines()[-LAST:])
    last = f" Its last words: {words}" if words.strip() else ""
    return f"the process ended with exit code {code} and no answer.{last}"


@final
class Worker:
    """Runs `python -m module`: it gets one input, is read line by line, and is killed when left."""

    def __init__(
        self, module: str, *, arguments: Sequence[str] = (), threads: int | None = None
    ) -> None:
        self._command = command(module, arguments=arguments)
        self._threads = threads
        self.code = 0
        """Exit code of the process; negative after a signal."""
        self.said = ""
        """What the process wrote to stderr."""

    def lines(self, told: bytes = b"", *, log: Path | None = None) -> Generator[bytes]:
        """Starts the process, writes its stdin, and yields its stdout line by line.

        Closing the generator kills the process.

        Args:
            told: all of its stdin.
            log: file for its stderr; None keeps that in `said` alone.
        """
        # A file: a pipe that nobody reads blocks the process once it is full.
        with log.open("w+b") if log else tempfile.TemporaryFile() as kept:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=kept,
                env=environment(threads=self._threads),
            )
            assert process.stdin and process.stdout
            try:
                with suppress(BrokenPipeError), process.stdin:  # its words say why it ended
                    process.stdin.write(told)
                yield from process.stdout
                process.wait()
            finally:
                process.kill()
                self.code = process.wait()
                kept.seek(0)
                self.said = kept.read().decode(errors="replace").strip()


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
