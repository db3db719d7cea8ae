"""Exact speculative sampling, for engines without a rule of their own and for tests.

A draft token d, sampled from q, is kept with probability min(1, p(d) / q(d)); the first one that is
not kept is replaced by a draw from the residual (p - q)+, normalised; after all were kept one more
is drawn from p. Every token then follows p (Leviathan et al., arXiv 2211.17192). q may sum to less
than 1: what is missing is a proposal of nothing.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.base import Draft

Reals = NDArray[np.floating]

Next = Callable[[Sequence[int]], Reals]
"""Returns the probabilities (vocab,) of the token after the given new ones."""


def verify(
    draft: Draft, *, target: Next, rng: np.random.Generator, residual: bool = True
) -> list[int]:
    """Returns the tokens one verification emits: accepted ones and one more.

    Without `residual` the one that is not kept is replaced by a draw from p: the biased rule of
    drafters that are not `exact`.
    """
    made: list[int] = []
    for t, token in enumerate(draft.tokens):
        p_V = target(made)
        if draft.law is None:
            # A point mass: drawing from p and comparing is the same rule with the same draws.
            made.append(_draw(p_V, rng=rng))
            if made[-1] != token:
                return made
            continue
        q_V = np.zeros_like(p_V)
        q_V[draft.law.ids_TM[t]] = draft.law.probs_TM[t]
        if q_V[token] <= 0 or rng.random() * q_V[token] >= p_V[token]:
            left_V = np.maximum(p_V - q_V, 0)
            # Laws that are equal but for rounding leave nothing, and almost never reject.
            return [*made, _draw(left_V if residual and left_V.any() else p_V, rng=rng)]
        made.append(token)
    return [*made, _draw(target(made), rng=rng)]


def _draw(weights_V: Reals, *, rng: np.random.Generator) -> int:
    # As `rng.choice(len, p=...)` draws, without its checks, which take most of its time.
    cdf_V = (weights_V / weights_V.sum(dtype=np.float64)).cumsum()
    return int((cdf_V / cdf_V[-1]).searchsorted(rng.random(), side="right"))
