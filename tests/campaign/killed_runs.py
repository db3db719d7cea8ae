"""Runs that die: one process, warm, that forks a run for each case and kills it where it is told.

`python -m tests.campaign.killed_runs FOLDER STRATEGY TRACKING` reads one case a line from stdin,
`[name, [n, m, ..., null]]`: the run `name` is killed at its n-th file operation, run again and
killed at the m-th of that process, ..., and run to its end (null). It answers with a line each: how
many operations the last process made, its error if it had one, and what it said on stderr.
"""

import io
import json
import os
import signal
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401 - warm

from gfcr import config, experiment
from gfcr.errors import GfcrError

_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")


class Deadline:
    """Counts the file operations below a folder, and kills the process at one of them."""

    def __init__(self, folder: Path, *, at: int | None) -> None:
        self.count, self._folder, self._at = 0, str(folder), at
        self._files: set[int] = set()
        fsync = os.fsync

        def counted(handle: int) -> None:
            self._hit()
            fsync(handle)

        os.fsync = counted
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
        if (event in _EVENTS or writes) and self._folder in str(arguments[0]):
            self._hit()

    def _hit(self) -> None:
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


TASKS = {"absolute_zero": "gfcr.testing.factories:CoinTask"}
"""Of strategies that ask for problems."""


def values(folder: Path, *, strategy: str, tracking: dict[str, Any]) -> dict[str, Any]:
    """The experiment: small, with evaluations between checkpoints and two of these kept."""
    return {
        "study": "kills",
        "model": "none",
        "folder": str(folder),
        "engine": {"name": "fake", "mean_length": 6},
        "task": {"name": TASKS.get(strategy, "chain_sum"), "num_train": 8, "num_heldout": 4},
        "trainer": {"name": "dry", "max_steps": 5, "save_every": 2},
        "tracking": tracking,
        "prompts": 2,
        "evaluation": {"prompts": 4, "every": 1},
        "strategy": {"name": strategy, "group_size": 2},
    }


def forked(spec: dict[str, Any], *, at: int | None) -> dict[str, Any]:
    """Runs the experiment in a process of its own; what it says of its end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        words, error = io.StringIO(), None
        deadline = Deadline(Path(spec["folder"]), at=at)
        try:
            with redirect_stderr(words):
                experiment.run(config.experiment(spec, where="kills"))
        except GfcrError as problem:
            error = str(problem)
        except BaseException as problem:
            error = f"unexpected {type(problem).__name__}: {problem}"
        answer = {"operations": deadline.count, "error": error, "words": words.getvalue()}
        with os.fdopen(writer, "w") as out:
            out.write(json.dumps(answer))
            out.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"killed": at}


def main() -> None:
    """Answers each line."""
    folder, strategy, tracking = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if tracking == "mlflow":
        import mlflow.store.tracking.sqlalchemy_store
        import mlflow.tracking  # noqa: F401 - warm
    for line in sys.stdin:
        name, kills = json.loads(line)
        place = folder / name
        where: dict[str, Any] = {"name": tracking}
        if tracking == "mlflow":
            where["uri"] = f"sqlite:///{place / 'mlflow.db'}"
        spec = values(place, strategy=strategy, tracking=where)
        answers = [forked(spec, at=at) for at in kills]
        print(json.dumps(answers[-1]), flush=True)


if __name__ == "__main__":
    main()
