"""A module of gfcr in a process of its own: told once, heard line by line, killed when left."""

import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final, final

from gfcr.process.environment import environment

LAST: Final = 5
"""Lines that are a process's last words."""


def command(module: str, *, arguments: Sequence[str] = ()) -> list[str]:
    """Returns the command that runs a module with this Python."""
    return [sys.executable, "-m", module, *arguments]


def no_answer(said: str, *, code: int) -> str:
    """Says of a process that gave none how it ended, and with which of the words it said."""
    words = "\n".join(said.splitlines()[-LAST:])
    return f"the process ended with exit code {code} and no answer. Its last words: {words}"


@final
class Worker:
    """Runs `python -m module`; what it writes to stderr is kept until it has ended."""

    def __init__(
        self, module: str, *, arguments: Sequence[str] = (), threads: int | None = None
    ) -> None:
        self._command = command(module, arguments=arguments)
        self._threads = threads
        self.code = 0
        """Its exit code; of a signal it is negative."""
        self.said = ""
        """What it wrote to stderr."""

    def lines(self, told: bytes = b"", *, log: Path | None = None) -> Generator[bytes]:
        """Starts it, tells it on stdin, and yields what it answers on stdout, line by line.

        Whoever stops listening ends it.

        Args:
            told: the whole of its stdin.
            log: file for its stderr; None keeps it in `said` alone.
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
                process.stdin.write(told)
                process.stdin.close()
                yield from process.stdout
                process.wait()
            finally:
                process.kill()
                self.code = process.wait()
                kept.seek(0)
                self.said = kept.read().decode(errors="replace").strip()
