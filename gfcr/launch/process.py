"""A trial's `gfcr run` process: started, polled, stopped."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from gfcr.errors import FolderInUse
from gfcr.launch.base import Job
from gfcr.launch.child import LENT
from gfcr.launch.forked import Forks
from gfcr.process.worker import command, no_answer
from gfcr.tracking.lock import is_locked
from gfcr.values import reading

_PATIENCE_S = 60
"""Seconds to wait for a process on a lost node, which may not know yet that its sweep is gone."""
_GRACE_S = 20
"""Seconds in which a process that is asked to end records that it is paused."""


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
        parent.mkdir(parents=True, exist_ok=True)
        self._log = parent / f"{name}.log"
        file = parent / f"{name}.yaml"
        file.write_text(reading.write(job.config), "utf-8")
        arguments = ["run", str(file), "--json", "--wait", str(_PATIENCE_S)]
        arguments += ["--fresh"] if job.fresh else []
        arguments += ["--accept", "data"] if job.accept_data else []
        arguments += ["--until", str(job.until)] if job.until is not None else []
        # To a file: a pipe that nobody reads blocks the process once it is full.
        self._answer = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed by wait or stop
        with self._log.open("a") as words:
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
        return _parse(text, log=self._log, code=code)

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


def first_free(waiting: Sequence[Job]) -> Job | None:
    """Returns the first trial that no other process runs, such as a second sweep of the study."""
    return next((job for job in waiting if not is_locked(job.folder)), None)


def is_taken(job: Job, result: Mapping[str, Any]) -> bool:
    """Returns whether a trial did not run because another process does, begun meanwhile."""
    return result.get("type") == FolderInUse.__name__ and is_locked(job.folder)


def _parse(text: str, *, log: Path, code: int) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError:
        error = no_answer(log.read_text(errors="replace"), code=code)
        return {"status": "failed", "error": error, "log": str(log)}
    return answer if "status" in answer else {"status": "failed", **answer}
