"""The process that trains a draft model: it is sent lines of JSON, and its results are files.

The run never waits for the process: messages fit into a pipe, and results are polled for. The
process ends when its standard input closes, so that it never outlives the run.
"""

import contextlib
import json
import logging
import os
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, final

from gfcr.process.environment import environment
from gfcr.process.worker import command
from gfcr.speculation import lessons
from gfcr.speculation.lessons import Example

_log = logging.getLogger(__name__)

_MOST_WAITING: Final = 8
"""Most rounds sent but not finished; a learner further behind misses new examples."""
_DEATHS: Final = 3
"""Consecutive deaths without a finished round after which the process is not started again."""


@final
@dataclass(frozen=True, kw_only=True)
class Course:
    """Settings with which a draft model is trained."""

    model: str
    """Folder of the draft model: its architecture and first weights."""
    steps: int
    """Optimizer steps per round."""
    lr: float
    pool: int
    """Tokens of the newest examples that rounds draw from."""
    rejected: float
    threads: int
    batch_tokens: int = 2048
    seed: int = 0


@final
@dataclass(frozen=True, kw_only=True)
class Learnt:
    """The outcome of one round of training."""

    weights: Path
    """File with all tensors of the draft model, by their names in a checkpoint."""
    optimizer: Path
    loss: float
    """Mean loss of the round, before each step: nats per token of the divergence from the verifier,
    or of the cross-entropy if only samples are known."""
    tokens: int
    """Tokens trained on in the round."""
    seconds: float


@final
class Learner:
    """Starts the training process, sends it examples, polls its results, restarts it if it dies."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._scratch = tempfile.TemporaryDirectory(prefix="gfcr-draft-")
        self.folder = Path(self._scratch.name)
        """Folder for messages and results, deleted with this object."""
        self._process: subprocess.Popen[bytes] | None = None
        self._told: list[int] = []
        self._round = 0
        self._start_from: tuple[Path | None, Path | None] = (None, None)
        self._deaths_in_a_row = 0
        self.deaths = 0
        self.missed = 0
        """Rounds that were not sent because the process was dead or too far behind."""

    @property
    def alive(self) -> bool:
        """Returns whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def given_up(self) -> bool:
        """Returns whether the process has died too often to be started again."""
        return self._deaths_in_a_row >= _DEATHS

    @property
    def pid(self) -> int | None:
        """Id of the process; None before the first start."""
        return self._process.pid if self._process else None

    def teach(self, examples: Sequence[Example]) -> None:
        """Sends examples for one round of training; returns at once."""
        if not self._ready() or len(self._told) >= _MOST_WAITING:
            self.missed += 1
            return
        self._round += 1
        file = self.folder / f"lesson-{self._round}.npz"
        lessons.save(examples, file=file)
        if self._tell({"learn": self._round, "lesson": str(file)}):
            self._told.append(self._round)
        else:
            self.missed += 1
            file.unlink()

    def restart_from(self, weights: Path | None, *, optimizer: Path | None = None) -> None:
        """Continues from these weights (None: the model's own) and discards rounds in progress."""
        self._told.clear()
        self._start_from = (weights, optimizer)
        if self.alive:
            self._tell(_origin(weights, optimizer))

    def poll(self) -> Learnt | None:
        """Returns the newest round finished since the last poll, or None."""
        # The learner writes the JSON last: where it exists, the weights are whole.
        done = [n for n in self._told if (self.folder / f"learnt-{n}.json").exists()]
        if not done:
            return None
        newest = max(done)
        # Rounds told together are learnt together, under the last one's number.
        self._told = [n for n in self._told if n > newest]
        told = json.loads((self.folder / f"learnt-{newest}.json").read_text())
        learnt = Learnt(
            weights=self.folder / f"learnt-{newest}.safetensors",
            optimizer=self.folder / f"learnt-{newest}.optimizer",
            **told,
        )
        self._deaths_in_a_row = 0
        self._start_from = (learnt.weights, learnt.optimizer)
        return learnt

    def keep(self, files: Iterable[Path | None]) -> None:
        """Deletes the results of earlier rounds, except these files and the newest."""
        kept = {*files, *self._start_from}
        for file in [*self.folder.glob("learnt-*")]:
            number = int(file.stem.removeprefix("learnt-"))
            if file not in kept and number not in self._told:
                file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Ends the process; the next call of `teach` starts it again."""
        if self._process is not None:
            _end(self._process)
            self._process = None
            self._told.clear()

    def _ready(self) -> bool:
        """Returns whether the process is running, after starting it if it may be started."""
        if self.alive:
            return True
        # A process that was ended by `stop` is None here, and counts as no death.
        if self._process is not None:
            self.deaths += 1
            self._deaths_in_a_row += 1
            self._report_death(self._process.returncode)
            self._told.clear()
            self._process = None
        if not self.given_up:
            self._start()
        return self.alive

    def _start(self) -> None:
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command("gfcr.train.draft_learner", arguments=[str(self.folder)]),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(threads=self._course.threads),
                start_new_session=True,  # an interrupt of the run is no reason to die in its midst
            )
        assert self._process.stdin is not None
        # A learner that does not read its messages must not hold up the run.
        os.set_blocking(self._process.stdin.fileno(), False)
        weakref.finalize(self, _end, self._process)
        self._tell({"course": asdict(self._course)})
        if self._start_from[0] is not None:
            self._tell(_origin(*self._start_from))

    def _tell(self, message: object) -> bool:
        assert self._process is not None and self._process.stdin is not None
        line = json.dumps(message).encode() + b"\n"
        try:
            # Lines are shorter than a pipe's atomic write: they arrive whole or not at all.
            return os.write(self._process.stdin.fileno(), line) == len(line)
        except (BlockingIOError, BrokenPipeError):
            return False

    def _report_death(self, code: int) -> None:
        log = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        said = log[-1:] if code > 0 else []  # who is killed has no last words
        then = "drafting goes on with the draft as it is" if self.given_up else "starting it again"
        why = f": {said[0]}" if said else ""
        _log.warning("the draft's learner has ended (exit code %s)%s; %s", code, why, then)


def _origin(weights: Path | None, optimizer: Path | None) -> dict[str, str | None]:
    return {
        "weights": weights and str(weights),
        "optimizer": optimizer and str(optimizer),
    }


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.kill()
    process.wait()
