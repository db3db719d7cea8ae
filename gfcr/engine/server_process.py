"""A vLLM server that gfcr starts, watches, starts again and ends."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from gfcr.engine.server_child import PARENT
from gfcr.engine.vllm_plugin import FIXES
from gfcr.process.environment import environment
from gfcr.process.worker import LAST, command

THROUGH: Final = "GFCR_SERVERS_THROUGH"
"""In the environment, a list in JSON: the command that runs servers where their launcher wants
them. It is given a server's number and its command, and ends with it."""
_CHILD: Final = "gfcr.engine.server_child"
_ERROR: Final = re.compile(r"\w+Error: ")
_STOP_S: Final = 15.0


@final
class ServerProcess:
    """`vllm serve` on a port of this machine, or where `THROUGH` runs it; its log is a file."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        fixes: bool,
        number: int = 0,
        placed: Mapping[str, str] | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            arguments: of the server, without host and port.
            log: file for what it prints.
            fixes: whether it is repaired, see `vllm_plugin`.
            number: which of its engine's servers it is.
            placed: what its environment says of where it computes, beside this process's.
        """
        self._arguments, self._fixes, self.log = [*arguments], fixes, log
        self._number, self._told = str(number), log.with_suffix(".url")
        self._placed = dict(placed or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """How often it was started."""

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """Where it listens; empty until it has a port."""
        return self._told.read_text() if self._told.is_file() else ""

    def begin(self) -> None:
        """Starts it, again where it was there before; it takes a while until it answers."""
        self._end(signal.SIGKILL)  # one that was there is lost
        self._told.unlink(missing_ok=True)
        through = json.loads(os.environ.get(THROUGH, "[]"))
        placed = [*through, self._number] if through else []
        line = command(_CHILD, arguments=[str(self._told), *self._arguments])
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*placed, *line],
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,
            )
        self.starts += 1

    def stop(self) -> None:
        """Ends it and what it started."""
        self._end(signal.SIGTERM, signal.SIGKILL)

    def last_words(self) -> str:
        """What the log ends with, and the first error in it, of which the others come."""
        if not self.log.is_file():
            return ""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        first = [line for line in lines if _ERROR.search(line)][:1]
        said = [*first, *(line for line in lines[-LAST:] if line not in first)]
        return "\n".join([f"Its last words ({self.log}):", *said])

    def _end(self, *kinds: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for kind in kinds:
            try:
                os.killpg(process.pid, kind)
                process.wait(_STOP_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def _environment(self) -> Mapping[str, str]:
        own = {
            FIXES: str(int(self._fixes)),
            PARENT: str(os.getpid()),
            "VLLM_SERVER_DEV_MODE": "1",  # weights and their version
            "VLLM_USE_V2_MODEL_RUNNER": "0",  # as in process
            "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
        }
        return {**environment(), **own, **self._placed}
