"""Planted biases: laws a stated total variation away from the target.

They are used twice: to plant them in a toy engine, and to compute what a sample could have shown.
Where a law is too concentrated for the stated distance, the tilt goes as far as it can.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np

from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

Tilt = Callable[..., Laws]


def to_top(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from all other tokens, in proportion, to the likeliest: too greedy."""
    return towards(law, to=_top(law), distance=distance)


def from_top(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from the likeliest token to the others, in proportion."""
    return towards(law, to=~_top(law), distance=distance)


def to_uniform(law: Laws, *, distance: float) -> Laws:
    """Mixes with the uniform law over the same support: too hot."""
    support = law > 0
    return _mix(law, support / support.sum(-1, keepdims=True), distance=distance)


def to_second(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from the likeliest token to the runner-up."""
    top = _top(law)
    second = _top(np.where(top, -1.0, law)) & (law > 0)
    moved = np.where(second.any(-1), np.minimum(distance, (law * top).sum(-1)), 0.0)
    return law + moved[:, None] * (second.astype(float) - top)


def to_half(law: Laws, *, distance: float) -> Laws:
    """Favours a fixed half of the vocabulary, in proportion: the hardest to see of given size."""
    return towards(law, to=np.broadcast_to(half(law.shape[1]), law.shape), distance=distance)


@cache
def half(vocab: int) -> Bools:
    """Returns which token ids belong to that half."""
    return np.random.default_rng(7).permutation(vocab) < vocab // 2


TILTS: Final[Mapping[str, Tilt]] = {
    f.__name__: f for f in (to_top, from_top, to_uniform, to_second, to_half)
}


def _top(law: Laws) -> Bools:
    ids: Ints = np.arange(law.shape[1], dtype=np.int32)
    return np.equal(ids, law.argmax(-1)[:, None])


def towards(law: Laws, *, to: Bools, distance: float) -> Laws:
    """Moves `distance` to some tokens; where these, or the others, have nothing, the law stays."""
    mass = (law * to).sum(-1, keepdims=True)
    movable = (mass > 1e-12) & (mass < 1 - 1e-12)
    safe = np.where(movable, mass, 0.5)
    moved = np.where(movable, np.minimum(distance, 1 - safe), 0.0)
    return law * np.where(to, 1 + moved / safe, 1 - moved / (1 - safe))


def _mix(law: Laws, other: Laws, *, distance: float) -> Laws:
    apart = 0.5 * np.abs(law - other).sum(-1, keepdims=True)
    share = np.where(apart > 0, np.minimum(distance / np.maximum(apart, 1e-300), 1.0), 0.0)
    return law + share * (other - law)
