"""Tells findings while a run is under way."""

from collections.abc import Mapping, Sequence
from typing import final

from gfcr.doctor.diagnosis import diagnose, treated
from gfcr.doctor.history import History
from gfcr.doctor.rule import Finding
from gfcr.tracking.folder import RunFolder


@final
class Watcher:
    """Takes in each update's metrics, and tells each finding once, as soon as it is there.

    Args:
        folder: the run folder; findings in what it has logged before are not told again.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._lines = [(line.step, line.metrics) for line in folder.metrics()]
        self._told = {finding.rule for finding in self._now()}

    def note(self, update: int, *, metrics: Mapping[str, float]) -> None:
        """Takes in metrics of an evaluation, by which the next update is judged, too."""
        self._lines.append((update, metrics))

    def heed(self, update: int, *, metrics: Mapping[str, float]) -> Sequence[Finding]:
        """Takes in the metrics of an update, and returns the findings that are new."""
        self.note(update, metrics=metrics)
        new = [finding for finding in self._now() if finding.rule not in self._told]
        self._told |= {finding.rule for finding in new}
        return treated(new, spec=self._folder.card().spec) if new else ()

    def _now(self) -> Sequence[Finding]:
        return diagnose(History(self._lines))
