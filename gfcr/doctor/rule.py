"""A rule: which number of a run shows a pathology, from which limit on, and what helps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from gfcr.doctor.history import History
from gfcr.taxonomy import CELLS


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
    """The cell of the survey's taxonomy."""
    update: int
    """The last update that the figure was measured over."""
    figure: float
    limit: float
    """The figure from which the rule finds something."""
    says: str
    levers: tuple[Lever, ...] = ()
    """Those that the run's own experiment can be given, the best first."""


Spec: TypeAlias = Mapping[str, Any]
"""The resolved experiment of a run, as in its `run.json`."""
Figure: TypeAlias = Callable[[History], float | None]
"""Computes a number from a run's metrics; None where they do not tell it."""
Overrides: TypeAlias = str | tuple[str, ...] | Callable[[Spec], tuple[str, ...]]
"""One or several, or a function of a run's spec, which returns none where they would not act."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One pathology of rollouts; `gfcr.doctor.shapes` makes most figures."""

    name: str
    cell: str
    """The cell of the survey's taxonomy; its branch is the stage where the levers act."""
    says: str
    """The finding as a sentence, with `{figure}`."""
    figure: Figure
    limit: float
    """The figure from which the pathology is found."""
    metrics: tuple[str, ...]
    """What a plot of the finding shows."""
    advice: Mapping[Overrides, str]
    """Each lever's overrides and why they help, the best first."""

    @property
    def stage(self) -> str:
        """Returns Generate, Filter, Control or Replay: where the levers act."""
        return CELLS[self.cell].branch

    def levers(self, spec: Spec) -> tuple[Lever, ...]:
        """Returns what helps a run with this spec, the best first."""
        offered = ((_given(each, spec=spec), why) for each, why in self.advice.items())
        return tuple(Lever(overrides=given, why=why) for given, why in offered if given)


def _given(overrides: Overrides, *, spec: Spec) -> tuple[str, ...]:
    if callable(overrides):
        return overrides(spec)
    return (overrides,) if isinstance(overrides, str) else overrides
