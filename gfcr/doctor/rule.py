"""What a rule says: where a number of a run shows a pathology, and what to do against it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from gfcr.doctor.history import History


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """Overrides that act against a pathology, as `gfcr run FILE OVERRIDES` takes them."""

    overrides: tuple[str, ...]
    why: str
    """What they do, in a few words."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A pathology that a run has."""

    rule: str
    stage: str
    cell: str
    """Of the survey's taxonomy."""
    update: int
    """The last one that it was measured over."""
    figure: float
    limit: float
    """The figure from which the rule finds something."""
    says: str
    levers: tuple[Lever, ...] = ()
    """Those that the run's own experiment can be given, the best first; none while it runs."""


class Rule(ABC):
    """One pathology. Its name is its file's."""

    stage: ClassVar[str]
    """Generate, Filter, Control or Replay: where the levers act."""
    cell: ClassVar[str]
    says: ClassVar[str]
    """The finding as a sentence, with `{figure}`."""
    limit: ClassVar[float]
    """The figure from which it is found."""
    metrics: ClassVar[tuple[str, ...]]
    """What a plot of the finding shows."""

    @property
    def name(self) -> str:
        """Its file's name."""
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def figure(self, history: History) -> float | None:
        """Returns the number that is held against `limit`; None where it was not measured."""

    @abstractmethod
    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """Returns what helps, the best first.

        Args:
            spec: the run's, as in its `run.json`.
        """
