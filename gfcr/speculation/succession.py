"""Successive drafts: what the learner makes is swapped in, judged, and rolled back if worse."""

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

from gfcr.speculation.guard import Guard
from gfcr.speculation.learner import Course, Learner
from gfcr.speculation.lessons import Example

if TYPE_CHECKING:
    import torch

    Named: TypeAlias = list[tuple[str, torch.Tensor]]

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Counts:
    swaps: int = 0
    rollbacks: int = 0
    cleared: int = 0
    """Rollbacks after which the predecessor did no better."""
    refused: int = 0
    rounds: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = 0.0


@final
class Succession:
    """The draft in use, its predecessor, the next one, and the learner that makes them.

    A draft is a file of weights; None is the model as the engine loaded it.
    """

    def __init__(self, *, fall: float, window: int) -> None:
        self.guard = Guard(fall=fall, window=window)
        self.learner: Learner | None = None
        self.offered: Path | None = None
        """A draft from elsewhere, used before what is learnt here."""
        self._counts = _Counts()
        self._newest: Path | None = None
        self._optimizer: Path | None = None
        self._current: Path | None = None
        self._previous: Path | None = None
        self._next: Path | None = None
        self._restored = False

    def teach(self, examples: Sequence[Example], *, course: Course) -> None:
        """Sends the learner examples for a round; the first call starts it."""
        self._started_learner(course).teach(examples)

    def fresh(self, folder: Path) -> "Named | None":
        """Returns weights to load in place of those in use; None if there is nothing to change.

        Args:
            folder: folder of the model as the engine loaded it.
        """
        self._take_learnt()
        # After a restart the engine has the original weights, not those of the restored draft.
        if self._restored:
            self._restored = False
            return _load(self._current, folder=folder)
        # A new draft would be judged against the one that has just failed.
        if self.guard.failed:
            self._roll_back()
            return _load(self._current, folder=folder)
        self._judge()
        file = self.offered or self._next
        if file is None or not self.guard.ready:
            return None
        return self._swap(file, weights=_load(file, folder=folder))

    def metrics(self) -> dict[str, float]:
        """Counters, and the acceptance length of the draft in use (0 until it is measured)."""
        learner, measured = self.learner, self.guard.measured
        return {
            **{k: float(v) for k, v in asdict(self._counts).items()},
            "learner_alive": float(learner is not None and learner.alive),
            "learner_deaths": float(learner.deaths if learner else 0),
            "missed": float(learner.missed if learner else 0),
            "acceptance_length": measured.length if measured else 0.0,
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns all drafts, those in use and those that wait, and all measurements."""
        self._take_learnt()
        return {
            "guard": copy.deepcopy(self.guard),
            "counts": copy.deepcopy(self._counts),
            # The files themselves are deleted with the learner's folder.
            "current": _bytes(self._current),
            "previous": _bytes(self._previous),
            "offered": _bytes(self.offered),
            "learnt": _bytes(self._newest),
            "optimizer": _bytes(self._optimizer),
            "waits": self._next is not None,
        }

    def load_state_dict(self, state: Mapping[str, Any], *, course: Course) -> None:
        """Restores `state_dict`; the engine gets the draft when it next asks."""
        self.guard, self._counts = copy.deepcopy(state["guard"]), copy.deepcopy(state["counts"])
        if all(state[name] is None for name in ("learnt", "current", "offered")):
            return
        learner = self._started_learner(course)
        kept = {
            name: _written(state[name], file=learner.folder / name)
            for name in ("current", "previous", "offered", "learnt", "optimizer")
        }
        self._current, self._previous = kept["current"], kept["previous"]
        learner.restart_from(kept["learnt"] or self._current, optimizer=kept["optimizer"])
        self._restored = self._current is not None
        self._newest, self._optimizer = kept["learnt"], kept["optimizer"]
        self.offered = kept["offered"] or self.offered
        self._next = self._newest if state["waits"] else None

    def _started_learner(self, course: Course) -> Learner:
        if self.learner is None:
            self.learner = Learner(course)
        return self.learner

    def _take_learnt(self) -> None:
        """Takes over what the learner has made since the last call."""
        learnt = self.learner.poll() if self.learner is not None else None
        if learnt is None:
            return
        self._newest = self._next = learnt.weights
        self._optimizer = learnt.optimizer
        counts = self._counts
        counts.rounds, counts.loss = counts.rounds + 1, learnt.loss
        counts.tokens += learnt.tokens
        counts.seconds += learnt.seconds

    def _swap(self, file: Path, *, weights: "Named") -> "Named | None":
        offered = file == self.offered
        if offered:
            self.offered = None
        else:
            self._next = None
        if not all(bool(tensor.isfinite().all()) for _, tensor in weights):
            # Draft probabilities that are no numbers would not be rejected soundly.
            self._counts.refused += 1
            _log.warning("a new draft has weights that are no finite numbers: it is not used")
            if not offered:
                self._go_back()
            return None
        self._previous, self._current = self._current, file
        self._counts.swaps += 1
        self.guard.swapped()
        self._delete_unused()
        return weights

    def _roll_back(self) -> None:
        self._counts.rollbacks += 1
        _log.warning("the new draft accepts less than the one before: rolled back")
        # What was learnt since is kept until `_judge` knows whether this draft was to blame.
        self._current, self._previous = self._previous, None
        self.guard.rolled_back()
        self._delete_unused()

    def _judge(self) -> None:
        """Drops what was learnt if the draft that was rolled back was to blame for the fall."""
        guilty = self.guard.guilty
        if guilty is None:
            return
        self.guard.suspect = None
        if guilty:
            self._go_back()
        else:
            self._counts.cleared += 1
            self._next = self._newest
            _log.info("what is asked has changed, not the draft: the newest is used")

    def _go_back(self) -> None:
        """Makes the learner continue from the draft in use, without what it made since."""
        self._newest = self._optimizer = self._next = None
        if self.learner is not None:
            self.learner.restart_from(self._current)
        self._delete_unused()

    def _delete_unused(self) -> None:
        if self.learner is not None:
            self.learner.keep([self._current, self._previous, self._next])


def _load(file: Path | None, *, folder: Path) -> "Named":
    import safetensors.torch

    library: Any = safetensors.torch  # partially typed
    files: Iterable[Path] = [file] if file else sorted(folder.glob("*.safetensors"))
    return [item for each in files for item in library.load_file(each).items()]


def _bytes(file: Path | None) -> bytes | None:
    return file.read_bytes() if file is not None else None


def _written(held: bytes | None, *, file: Path) -> Path | None:
    if held is None:
        return None
    file.write_bytes(held)
    return file
