"""A trial as a process of its own: started, polled, stopped."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, final

from gfcr.launch.base import Job
from gfcr.tracking.lock import is_locked
from gfcr.values import reading

_PATIENCE_S = 60
"""For the process of a lost node, which may not know yet that its sweep is gone."""
_GRACE_S = 20
"""In which a process that is asked to end writes down that it is paused."""


@final
class TrialProcess:
    """One `gfcr run` process, which ends with the one that started it, however that one ends.

    Its words go to `<run folder>.log`, its spec is `<run folder>.yaml`.
    """

    def __init__(self, job: Job, *, cwd: Path | None = None) -> None:
        """Starts it, in the folder `cwd` where one is given."""
        parent, name = job.folder.parent, job.folder.name
        parent.mkdir(parents=True, exist_ok=True)
        self._log = parent / f"{name}.log"
        file = parent / f"{name}.yaml"
        file.write_text(reading.write(job.config))
        command = [sys.executable, "-m", "gfcr.launch.child", str(os.getpid())]
        command += ["run", str(file), "--json", "--wait", str(_PATIENCE_S)]
        command += ["--fresh"] if job.fresh else []
        command += ["--until", str(job.until)] if job.until is not None else []
        # To a file: a pipe that nobody reads blocks the process once it is full.
        self._answer = tempfile.TemporaryFile()  # noqa: SIM115 - closed by wait or stop
        with self._log.open("a") as words:
            self._process = subprocess.Popen(command, stdout=self._answer, stderr=words, cwd=cwd)

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """Returns the trial's answer; None where it is still running after so long."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        self._answer.seek(0)
        text = self._answer.read().decode(errors="replace")
        self._answer.close()
        return _parse(text, log=self._log, code=self._process.returncode)

    def ask_to_end(self) -> None:
        """Asks it to pause."""
        self._process.terminate()

    def stop(self) -> None:
        """Ends it; it resumes from its last checkpoint when it is run again."""
        self._process.terminate()
        try:
            self._process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answer.close()


def is_held(job: Job) -> bool:
    """Whether another process, such as a second sweep of the study, runs this trial now."""
    return is_locked(job.folder)


def _parse(text: str, *, log: Path, code: int) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError:
        lines = log.read_text(errors="replace").splitlines()
        words = "\n".join(lines[-5:])
        error = f"the process ended with exit code {code} and no answer. Its last words: {words}"
        return {"status": "failed", "error": error, "log": str(log)}
    return answer if "status" in answer else {"status": "failed", **answer}
