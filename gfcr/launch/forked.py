"""Trials forked from a process that has imported their libraries, as their launcher sees them."""

import json
import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from select import select
from typing import IO, Any, final

from gfcr import registry
from gfcr.launch.base import Job
from gfcr.process.cores import accelerated
from gfcr.process.environment import set_defaults
from gfcr.process.worker import command
from gfcr.tracking.folder_store import result_at


def libraries_of(jobs: Iterable[Job]) -> list[str]:
    """Returns libraries that the trials import, if two or more are to run and forking is safe."""
    wanted = [j for j in jobs if j.fresh or result_at(j.folder).get("status") != "finished"]
    kinds = ("engine", "trainer", "tracking")
    named = dict.fromkeys((kind, job.config[kind]["name"]) for kind in kinds for job in wanted)
    parts = [registry.find(kind, name) for kind, name in named]
    libraries = list(dict.fromkeys(library for part in parts for library in part.libraries))
    # A torch with an accelerator may have initialised it, which no fork survives.
    return libraries if len(wanted) > 1 and not accelerated() else []


def _environment() -> Any:
    """Returns what a fresh process would start with; upgrading libraries changes it."""
    installed = os.stat(sysconfig.get_path("purelib")).st_mtime_ns
    return dict(os.environ), os.getcwd(), installed


@final
class Forks:
    """Processes of `gfcr.launch.warm`, one per trial at a time; none if there are no libraries."""

    def __init__(self, libraries: Sequence[str]) -> None:
        self._libraries = libraries
        self._warm: list[subprocess.Popen[bytes]] = []
        self._idle: list[subprocess.Popen[bytes]] = []
        self._like: Any = None

    def start(self, told: Sequence[str], *, log: IO[Any]) -> "Forked | None":
        """Starts a trial, see `gfcr.launch.warm`; None if it has to be started as a fresh process.

        Raises:
            ConnectionError: the warm process has ended; later trials start as fresh processes.
        """
        set_defaults()
        self._like = self._like or _environment()
        if not self._libraries or _environment() != self._like:
            return None
        if not self._idle:
            line, pipe = command("gfcr.launch.warm", arguments=self._libraries), subprocess.PIPE
            made = subprocess.Popen(line, bufsize=0, stdin=pipe, stdout=pipe, stderr=log)
            self._idle.append(made)  # unbuffered: `select` sees each answer that was not read
            self._warm += self._idle
        warm = self._idle.pop()
        assert warm.stdin and warm.stdout
        with suppress(BrokenPipeError):
            os.write(warm.stdin.fileno(), json.dumps(told).encode() + b"\n")
        if pid := warm.stdout.readline():
            return Forked(warm, pid=int(pid), idle=self._idle)
        self._libraries = ()
        raise ConnectionError(f"the process to fork from ended, exit code {warm.wait()}")

    def close(self) -> None:
        """Ends the warm processes; trials that still run then pause by themselves."""
        for warm in self._warm:
            warm.kill()
            warm.communicate()


@final
class Forked:
    """A forked trial, with the methods of `subprocess.Popen` that launchers use."""

    def __init__(
        self, warm: "subprocess.Popen[bytes]", *, pid: int, idle: "list[subprocess.Popen[bytes]]"
    ) -> None:
        self._warm, self._pid, self._idle = warm, pid, idle

    def wait(self, timeout: float | None = None) -> int:
        """See `subprocess.Popen.wait`."""
        assert self._warm.stdout
        if not select([self._warm.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("gfcr.launch.child", timeout or 0.0)
        if not (code := self._warm.stdout.readline()):
            return -signal.SIGKILL  # its warm process was killed, so the trial soon pauses
        self._idle.append(self._warm)
        return int(code)

    def terminate(self) -> None:
        """Asks the trial to pause, by SIGTERM."""
        self.kill(signal.SIGTERM)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends the trial a signal, SIGKILL by default."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)
