"""A vLLM server process that gfcr starts, watches, restarts and ends."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from gfcr.engine.server_child import PARENT
from gfcr.engine.vllm_plugin import FIXES
from gfcr.process.environment import environment
from gfcr.process.worker import LAST, command

THROUGH: Final = "GFCR_SERVERS_THROUGH"
"""Environment variable with a command, as a JSON list, that runs a server where the launcher wants
it: it gets the server's number and command as arguments, and exits with the server."""
_CHILD: Final = "gfcr.engine.server_child"
_ERROR: Final = re.compile(r"\w+Error: ")
_STOP_S: Final = 15.0


@final
class ServerProcess:
    """`vllm serve` on this machine or wherever `THROUGH` runs it, with its output in a log file."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        fixes: bool,
        number: int = 0,
        placed: Mapping[str, str] | None = None,
    ) -> None:
        """Starts nothing before `begin` is called.

        Args:
            arguments: arguments of `vllm serve`, without host and port.
            log: file for its output.
            fixes: whether vLLM is repaired, see `vllm_plugin`.
            number: index of the server in its engine.
            placed: environment variables that pin the server to a device.
        """
        self._arguments, self._fixes, self.log = [*arguments], fixes, log
        self._number, self._told = str(number), log.with_suffix(".url")
        self._placed = dict(placed or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """Number of times that the process was started."""

    @property
    def pid(self) -> int:
        """Id of the process; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Returns whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """URL that the server listens at; empty until it has chosen a port."""
        return self._told.read_text() if self._told.is_file() else ""

    def begin(self) -> None:
        """Starts or restarts the process; loading the model takes a while after that."""
        self._end(signal.SIGKILL)  # one that was there is lost
        # The address of the process before would be taken for that of the new one.
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
        """Ends the process and all its children."""
        self._end(signal.SIGTERM, signal.SIGKILL)

    def last_words(self) -> str:
        """Returns the log's first error, which usually caused the others, and the log's end."""
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
        # Children may outlive the process: the second signal is sent even if the first sufficed.
        for kind in kinds:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, kind)
                process.wait(_STOP_S)

    def _environment(self) -> Mapping[str, str]:
        own = {
            FIXES: str(int(self._fixes)),
            PARENT: str(os.getpid()),
            "VLLM_SERVER_DEV_MODE": "1",  # weights and their version
            "VLLM_USE_V2_MODEL_RUNNER": "0",  # as in process
            "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
        }
        return {**environment(), **own, **self._placed}
