"""The rules asked while a run is under way."""

from collections.abc import Mapping, Sequence
from typing import final

from gfcr.doctor.diagnosis import diagnose
from gfcr.doctor.history import History
from gfcr.doctor.rule import Finding
from gfcr.tracking.folder import RunFolder


@final
class Watcher:
    """Takes in each update's metrics, and tells each finding once, when it is first there.

    Args:
        folder: of the run; what it has logged before has been told.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._lines = [(line.step, line.metrics) for line in folder.metrics()]
        self._told = {finding.rule for finding in self._now()}

    def heed(self, update: int, *, metrics: Mapping[str, float]) -> Sequence[Finding]:
        """Returns what is found now and was not before."""
        self._lines.append((update, metrics))
        new = [finding for finding in self._now() if finding.rule not in self._told]
        self._told |= {finding.rule for finding in new}
        return new

    def _now(self) -> Sequence[Finding]:
        return diagnose(History(self._lines))
