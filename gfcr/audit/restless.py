"""Makes a drafter that may pause draft all the same, so that there is something to audit."""

from typing import Final

import numpy as np

from gfcr.speculation.base import Drafter

OFTEN: Final = 0.75
"""Share of the steps without drafts in which some are asked for nevertheless."""


def make_restless(drafter: Drafter) -> None:
    """Makes a drafter mostly draft a random number of tokens where it would pause.

    The choice is independent of all that is sampled, so that it adds or removes no bias.
    """
    calm, rng = drafter.pace, np.random.default_rng(0)

    def pace(*, running: int) -> int:
        asked = calm(running=running)
        if asked or rng.random() > OFTEN:
            return asked
        return int(rng.integers(1, drafter.max_draft + 1))

    drafter.pace = pace
