"""Models how many drafted tokens a verification accepts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import ConfigError
from gfcr.stats.scipy_stats import optimize

Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class Acceptance:
    """Probability that the drafted token at each position, and all before it, are accepted.

    These are the shares by position that vLLM's counters give: never rising, and the acceptance
    length with k drafts is 1 + their sum over the first k positions (the bonus token included).
    """

    by_position: tuple[float, ...]

    def __post_init__(self) -> None:
        p = (1.0, *self.by_position)
        if not self.by_position or not all(0 <= b <= a for a, b in pairwise(p)):
            raise ConfigError(
                f"acceptance {list(self.by_position)}: give at least one number, each in [0, 1] "
                "and none above the one before (shares accepted by position)."
            )

    @property
    def longest(self) -> int:
        """The length of the longest draft that acceptance is given for."""
        return len(self.by_position)

    def length(self, draft: int) -> float:
        """Returns the mean tokens that a verification of `draft` drafted tokens emits (alpha).

        Raises:
            ConfigError: acceptance is not given for a draft of that length.
        """
        if not 0 <= draft <= self.longest:
            raise ConfigError(
                f"acceptance is given for drafts of 0 to {self.longest} tokens, not {draft}: "
                "give it for more positions or draft less."
            )
        return 1 + sum(self.by_position[:draft])

    def draw(self, draft_R: Counts, *, rng: np.random.Generator) -> Counts:
        """Draws the accepted tokens of one verification per request, at most its draft length."""
        if not draft_R.any():
            return np.zeros_like(draft_R)
        luck_R = rng.random(len(draft_R))
        falling = -np.asarray(self.by_position)
        return np.minimum(np.searchsorted(falling, -luck_R), draft_R)


def constant(probability: float, *, longest: int) -> Acceptance:
    """Returns equal acceptance at every position, given those before: p_j = p^j."""
    return Acceptance(tuple(probability**j for j in range(1, longest + 1)))


def constant_from_length(length: float, *, draft: int, longest: int) -> Acceptance:
    """Returns the constant acceptance whose mean length with `draft` drafted tokens is `length`.

    Raises:
        ConfigError: `length` is not between 1 and draft + 1.
    """
    if not 1 <= length <= draft + 1:
        raise ConfigError(
            f"an acceptance length of {length} with {draft} drafted tokens is impossible: "
            f"give 1 to {draft + 1}."
        )

    def missing(chance: float) -> float:
        return constant(chance, longest=draft).length(draft) - length

    return constant(float(optimize.brentq(missing, 0.0, 1.0)), longest=longest)


def parse(values: Sequence[float], *, longest: int) -> Acceptance:
    """Reads one value as constant acceptance, and several as shares accepted by position."""
    if len(values) != 1:
        return Acceptance(tuple(values))
    return constant(values[0], longest=max(longest, 1))
