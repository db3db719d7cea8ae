"""Filters that look at right rollouts only, or at all, and weigh those that they look at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.stages import EPISODE
from gfcr.types import Group

Of: TypeAlias = Literal["right", "all"]


def chosen(group: Group, *, of: Of, threshold: float) -> list[int]:
    """Indices of the kept rollouts, of all or of those that the verifier gives the threshold."""
    right_N = group.raw_rewards_N >= threshold if of == "right" else True
    return np.flatnonzero(group.kept_N & right_N).tolist()


def outcomes(group: Group) -> NDArray[np.float64]:
    """The verifier's rewards of the kept rollouts; an episode that is several counts once."""
    triples = zip(group.rollouts, group.raw_rewards_N, group.kept_N, strict=True)
    found = {(r.group_id, r.notes.get(EPISODE, r.id)): w for r, w, kept in triples if kept}
    return np.array([*found.values()], np.float64)


def weighed(group: Group, which: Sequence[int], weights: Sequence[float]) -> Group:
    """The group with the weights of some rollouts multiplied."""
    signals = list(group.signals)
    for i, weight in zip(which, weights, strict=True):
        signals[i] = replace(signals[i], weight=signals[i].weight * float(weight))
    return group.with_signals(signals)
