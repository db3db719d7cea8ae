"""Makes a drafter that may pause draft all the same, so that there is something to audit."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from gfcr.speculation.base import Drafter, Step, Target

OFTEN: Final = 0.75
"""Share of the steps without drafts in which some are asked for nevertheless."""


@final
class Restless(Drafter):
    """Wraps an adaptive drafter: where it would pause, mostly drafts a random number of tokens.

    The choice is independent of all that is sampled, so that it adds or removes no bias.
    """

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self._rng = np.random.default_rng(0)

    @property
    def core(self) -> Drafter:
        """See `Drafter.core`."""
        return self.inner.core

    @property
    def max_draft(self) -> int:
        """See `Drafter.max_draft`."""
        return self.inner.max_draft

    def check(self, target: Target) -> None:
        """See `Drafter.check`."""
        self.inner.check(target)

    def pace(self, *, running: int) -> int:
        """See `Drafter.pace`."""
        asked = self.inner.pace(running=running)
        if asked or self._rng.random() > OFTEN:
            return asked
        return int(self._rng.integers(1, self.max_draft + 1))

    def saw(self, step: Step) -> None:
        """See `Drafter.saw`."""
        self.inner.saw(step)

    def state_dict(self) -> dict[str, Any]:
        """See `Part.state_dict`."""
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Part.load_state_dict`."""
        self.inner.load_state_dict(state)
