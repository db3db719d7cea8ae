"""A trial's `gfcr run` process: started afresh or forked, polled, stopped."""

import json
import os
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import IO, Any, final

from gfcr import registry
from gfcr.errors import FolderInUse, GfcrError
from gfcr.launch.base import Job, JobEnd
from gfcr.launch.child import LENT
from gfcr.process.cores import accelerated
from gfcr.process.environment import set_defaults
from gfcr.process.worker import command, no_answer
from gfcr.tracking.folder_store import result_at
from gfcr.tracking.lock import is_locked
from gfcr.values import reading

_PATIENCE_S = 60
"""Seconds to wait for a process on a lost node, which may not know yet that its sweep is gone."""
_GRACE_S = 20
"""Seconds in which a process that is asked to end records that it is paused."""


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


@final
class TrialProcess:
    """One `gfcr run` process, which ends with its parent, however that one ends.

    Its output goes to `<run folder>.log`, its configuration is `<run folder>.yaml`.
    """

    def __init__(
        self,
        job: Job,
        *,
        cwd: Path | None = None,
        forks: Forks | None = None,
        cores: Iterable[int] = (),
        lease: str = "",
    ) -> None:
        """Starts the process.

        Args:
            job: the trial.
            cwd: working folder of the process; None: this process's.
            forks: warm processes to fork from; None starts a fresh process.
            cores: cores to confine the process to; none leave it free.
            lease: file and row by which cores are lent to it instead.
        """
        parent, name = job.folder.parent, job.folder.name
        self._log = parent / f"{name}.log"
        file = parent / f"{name}.yaml"
        with writing(parent):
            parent.mkdir(parents=True, exist_ok=True)
            file.write_text(reading.write(job.config), "utf-8")
        arguments = ["run", str(file), "--json", "--wait", str(_PATIENCE_S)]
        arguments += ["--fresh"] if job.fresh else []
        arguments += ["--accept", "data"] if job.accept_data else []
        arguments += ["--until", str(job.until)] if job.until is not None else []
        # To a file: a pipe that nobody reads blocks the process once it is full.
        self._answer = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed by wait or stop
        with self._log.open("a") as words:
            self._begun_at = words.tell()  # behind the words of earlier processes of the trial
            place = f"{LENT}{lease}" if lease else ",".join(map(str, cores)) or "all"
            arguments = [place, *arguments]
            forked, told = None, [self._answer.name, str(self._log.absolute()), *arguments]
            try:
                forked = forks and forks.start(told, log=words)
            except ConnectionError as error:
                print(f"started fresh: {error}", file=words, flush=True)
            line = command("gfcr.launch.child", arguments=[str(os.getpid()), *arguments])
            self._process = forked or subprocess.Popen(
                line, stdout=self._answer, stderr=words, cwd=cwd
            )

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """Returns the trial's result, or None if it is still running after `seconds`."""
        try:
            code = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        self._answer.seek(0)
        text = self._answer.read().decode(errors="replace")
        self._answer.close()
        return _parse(text, log=self._log, since=self._begun_at, code=code)

    def ask_to_end(self) -> None:
        """Asks the process to pause, without waiting."""
        self._process.terminate()

    def stop(self) -> None:
        """Ends the process; run again, the trial resumes from its last checkpoint."""
        self._process.terminate()
        try:
            self._process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answer.close()


@contextmanager
def writing(folder: Path) -> Generator[None]:
    """Turns errors of the system, where a folder is made or written to, into what to do."""
    try:
        yield
    except OSError as error:
        raise GfcrError(
            f"{folder} cannot be written to ({error.strerror}): give `folder=` a place on a disk "
            "with room that you may write to, then run the same command again."
        ) from error


def first_free(waiting: Sequence[Job]) -> Job | None:
    """Returns the first trial that no other process runs, such as a second sweep of the study."""
    return next((job for job in waiting if not is_locked(job.folder)), None)


def ended(job: Job, result: Mapping[str, Any], *, waiting: list[Job]) -> Iterator[JobEnd]:
    """Yields a trial's end; one that another process had begun meanwhile is `waiting` again."""
    if result.get("type") == FolderInUse.__name__ and is_locked(job.folder):
        waiting.append(job)
    else:
        yield JobEnd(job=job, result=result)


def _parse(text: str, *, log: Path, since: int, code: int) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError:
        said = log.read_bytes()[since:].decode(errors="replace")
        error = no_answer(said, code=code)
        return {"status": "failed", "error": error, "log": str(log)}
    return answer if "status" in answer else {"status": "failed", **answer}
