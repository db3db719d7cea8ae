"""Whether a change of the draft made it worse: acceptance before and after, with its noise.

Acceptance drifts within a batch (all rollouts begin together, the long ones end alone), so what is
compared is whole batches: from one `boundary` to the next. Only a collapse is seen at once. Where
acceptance fell because the world has moved, the draft before does no better: that is looked at too.
"""

import math
from dataclasses import dataclass, field
from typing import Final, final

from gfcr.speculation.base import Step

_SIGMAS: Final = 3.0
"""A fall counts when it is this many standard errors of the difference."""
_COLLAPSE: Final = 0.5
"""A draft that accepts less than this share of its predecessor's tokens is not waited for."""
_PATIENCE: Final = 3
"""Boundaries after which a draft that is hardly used no longer holds up the next one."""


@final
@dataclass(kw_only=True)
class Tally:
    """Acceptance over engine steps: a ratio of sums, its error from the spread between steps."""

    drafts: int = 0
    accepted: int = 0
    _aa: float = 0.0
    _ad: float = 0.0
    _dd: float = 0.0

    def add(self, step: Step) -> None:
        """Counts one engine step."""
        self.drafts += step.drafts
        self.accepted += step.accepted
        self._aa += step.accepted**2
        self._ad += step.accepted * step.drafts
        self._dd += step.drafts**2

    @property
    def mean(self) -> float:
        """Tokens accepted per draft; 0 without any draft."""
        return self.accepted / self.drafts if self.drafts else 0.0

    @property
    def length(self) -> float:
        """Acceptance length: tokens emitted per verification, the verifier's own included."""
        return 1.0 + self.mean

    @property
    def variance(self) -> float:
        """Of `mean`: sum (a - mean d)^2 / (sum d)^2, steps taken as independent."""
        m = self.mean
        residual = self._aa - 2 * m * self._ad + m * m * self._dd
        return max(residual, 0.0) / self.drafts**2 if self.drafts else math.inf


@final
@dataclass(kw_only=True)
class Guard:
    """Measures the draft in use and says when it should go back to the one before."""

    fall: float
    """Largest tolerated fall of the acceptance length, as a share of the predecessor's."""
    window: int
    """Drafts to see before judging."""
    failed: bool = False
    """The draft in use is worse than its predecessor: roll it back."""
    measured: Tally | None = None
    """Newest whole batches of the draft in use."""
    suspect: Tally | None = None
    """Of the draft that was rolled back, until it is known whether it was to blame."""
    _before: Tally | None = None
    _running: Tally = field(default_factory=Tally)
    _since: Tally = field(default_factory=Tally)
    _partial: bool = False
    _steps: int = 0
    _boundaries: int = 0

    @property
    def ready(self) -> bool:
        """Whether the draft in use has been judged, so that the next one may come."""
        measured = self.measured is not None or self._boundaries >= _PATIENCE
        return measured and not self.failed and self.suspect is None

    @property
    def guilty(self) -> bool | None:
        """Whether the draft before is better than the one that was rolled back.

        None while that is not known, or nobody is suspected. A draft that is hardly used does not
        speak for the other.
        """
        if self.suspect is None or (self.measured is None and self._boundaries < _PATIENCE):
            return None
        return self.measured is None or self._worse(self.suspect, than=self.measured)

    def saw(self, step: Step) -> None:
        """Counts one engine step of the draft in use."""
        if not step.drafts:
            return
        self._steps += 1
        self._since.add(step)
        self._running.add(step)
        if self._before is not None and self.measured is None and self._since.drafts >= self.window:
            self.failed = self.failed or self._since.mean < _COLLAPSE * self._before.mean

    def boundary(self) -> None:
        """A batch has ended: judges the draft when whole batches have shown it long enough."""
        self._steps = 0
        self._boundaries += 1
        if self._partial:
            self._partial, self._running = False, Tally()
        elif self._running.drafts >= self.window:
            if self.measured is None and self._before is not None:
                self.failed = self.failed or self._worse(self._running, than=self._before)
            self.measured, self._running = self._running, Tally()

    def swapped(self) -> None:
        """A new draft is in use; the one before is what it is compared with."""
        self._begin(before=self.measured)

    def rolled_back(self) -> None:
        """The draft before is in use again: it is measured anew, the world may have changed."""
        self.suspect = self.measured or self._since
        self._begin(before=None)

    def _begin(self, *, before: Tally | None) -> None:
        self._before, self.measured, self.failed = before, None, False
        self._running, self._since = Tally(), Tally()
        # Requests in flight were begun with the draft before, whose keys and values they keep.
        self._partial, self._boundaries = self._steps > 0, 0

    def _worse(self, tally: Tally, *, than: Tally) -> bool:
        error = math.sqrt(tally.variance + than.variance)
        lost = than.length - tally.length
        return lost > self.fall * than.length and lost > _SIGMAS * error
