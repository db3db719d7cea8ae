"""The tracking contract, and the run folder that every tracker uploads from.

A run writes to its folder first (`RunFolder`); a tracker mirrors it and may fail without harm.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gfcr.part import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """The identity of a run, written to `run.json` in its folder before anything is generated."""

    run_id: str
    """Stable hash of the resolved spec and seed: the same command finds the same run."""
    study: str
    arm: str
    seed: int
    spec: Mapping[str, object]
    """The resolved experiment, every part with every value."""
    roster: Mapping[str, Sequence[int] | Sequence[str]] = field(
        default_factory=dict[str, Sequence[int]]
    )
    """The `seeds` and `arms` that the study asked for when the run began."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """gfcr.generate, gfcr.filters, gfcr.controls, gfcr.replays, gfcr.task, gfcr.model,
    gfcr.version.*, gfcr.commit, gfcr.code*, gfcr.digest.* (see `gfcr.experiment.provenance`);
    gfcr.certificate and more of it, see `gfcr.certificate.certify`."""


class Tracker(Part):
    """Mirrors run folders to a tracking store; the module's name is the tracker's."""

    @abstractmethod
    def start(self, card: RunCard, *, folder: Path) -> None:
        """Opens (or reopens, when resumed) the run in the store. Never raises on a dead store."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Mirrors one line of metrics. Never blocks the run for long, never raises."""

    @abstractmethod
    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        """Closes the run as `finished` or `failed` with its result, and uploads artifacts."""
