"""Judges whether a new draft is worse than its predecessor, by acceptance length and its error.

Acceptance drifts within a batch (all rollouts begin together, the long ones end alone), so what is
compared is whole batches: from one `boundary` to the next. Only a collapse is seen at once. Where
acceptance fell because the world has moved, the draft before does no better: that is looked at too.
"""

import math
from dataclasses import dataclass, field
from typing import Final, final

from gfcr.speculation.base import Step

_SIGMAS: Final = 3.0
"""Standard errors of the difference that a fall of the acceptance length must exceed."""
_COLLAPSE: Final = 0.5
"""Share of its predecessor's acceptance below which a draft is rolled back at once."""
_PATIENCE: Final = 3
"""Boundaries after which a draft that is hardly used no longer holds up the next one."""


@final
@dataclass(kw_only=True)
class Tally:
    """Acceptance over engine steps: a ratio of sums, with its error from the spread of steps."""

    drafts: int = 0
    accepted: int = 0
    _aa: float = 0.0
    _ad: float = 0.0
    _dd: float = 0.0

    def add(self, step: Step) -> None:
        """Adds one engine step."""
        self.drafts += step.drafts
        self.accepted += step.accepted
        self._aa += step.accepted**2
        self._ad += step.accepted * step.drafts
        self._dd += step.drafts**2

    @property
    def mean(self) -> float:
        """Accepted tokens per draft; 0 without any draft."""
        return self.accepted / self.drafts if self.drafts else 0.0

    @property
    def length(self) -> float:
        """Acceptance length: tokens emitted per verification, the verifier's own token included."""
        return 1.0 + self.mean

    @property
    def variance(self) -> float:
        """Variance of `mean`: sum (a - mean d)^2 / (sum d)^2, taking steps as independent."""
        m = self.mean
        residual = self._aa - 2 * m * self._ad + m * m * self._dd
        # Rounding can bring a residual that is 0 below it.
        return max(residual, 0.0) / self.drafts**2 if self.drafts else math.inf


@final
@dataclass(kw_only=True)
class Guard:
    """Measures the draft in use and decides whether to roll back to its predecessor."""

    fall: float
    """Largest tolerated fall of the acceptance length, as a share of the predecessor's."""
    window: int
    """Drafts to observe before a draft is judged."""
    failed: bool = False
    """Whether the draft in use is worse than its predecessor and must be rolled back."""
    measured: Tally | None = None
    """Acceptance of the draft in use, over its newest whole batches; None before the first."""
    suspect: Tally | None = None
    """Acceptance of the draft that was rolled back, until it is known whether it was to blame."""
    _before: Tally | None = None
    _running: Tally = field(default_factory=Tally)
    _since: Tally = field(default_factory=Tally)
    _partial: bool = False
    _steps: int = 0
    _boundaries: int = 0

    @property
    def ready(self) -> bool:
        """Returns whether the draft in use has been judged, so that the next one may be loaded."""
        measured = self.measured is not None or self._boundaries >= _PATIENCE
        return measured and not self.failed and self.suspect is None

    @property
    def guilty(self) -> bool | None:
        """Returns whether the predecessor is better than the draft that was rolled back for it.

        None while that is not known, or no draft is suspected. A draft that is hardly used gives no
        evidence for the other.
        """
        if self.suspect is None or (self.measured is None and self._boundaries < _PATIENCE):
            return None
        return self.measured is None or self._worse(self.suspect, than=self.measured)

    def saw(self, step: Step) -> None:
        """Adds one engine step made with the draft in use."""
        if not step.drafts:
            return
        self._steps += 1
        self._since.add(step)
        self._running.add(step)
        if self._before is not None and self.measured is None and self._since.drafts >= self.window:
            self.failed = self.failed or self._since.mean < _COLLAPSE * self._before.mean

    def boundary(self) -> None:
        """Ends a batch: judges the draft once whole batches have shown it for long enough."""
        self._steps = 0
        self._boundaries += 1
        if self._partial:
            self._partial, self._running = False, Tally()
        elif self._running.drafts >= self.window:
            if self.measured is None and self._before is not None:
                self.failed = self.failed or self._worse(self._running, than=self._before)
            self.measured, self._running = self._running, Tally()

    def swapped(self) -> None:
        """Starts measuring a new draft against the one that was in use."""
        self._begin(before=self.measured)

    def rolled_back(self) -> None:
        """Starts measuring the predecessor afresh: the policy or the prompts may have changed."""
        # A draft that collapsed is rolled back before a whole batch has measured it.
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
