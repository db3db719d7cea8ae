"""Temperature 0: every token must be the target's argmax. No statistics, one mismatch decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from gfcr.audit import sampler, shifts
from gfcr.audit.asked import Asked
from gfcr.audit.evidence import added, reported
from gfcr.audit.features import Array
from gfcr.audit.law import Laws
from gfcr.audit.sampler import PLAIN, Sampled
from gfcr.types import Bools, Ints


@final
@dataclass(frozen=True, kw_only=True)
class Compared:
    """Tokens beside the argmax, ordered by request and position; suffix N: one entry per token."""

    clear_N: Bools
    """Whether the best two are farther apart than the engine's dtype can tell."""
    different_N: Bools
    """Whether it is farther from the argmax than that."""
    state_N: Ints
    position_N: Ints
    length_N: Ints
    draft_hit_N: Bools
    gap_N: Array
    """Reported log-prob minus the right one; NaN where none was reported."""

    def __len__(self) -> int:
        return int(self.clear_N.sum())

    @property
    def scope_N(self) -> Bools:
        """The tokens that are tested: those of verification steps, if there are any."""
        speculated = self.clear_N & (self.state_N != PLAIN)
        return speculated if speculated.any() else self.clear_N

    @property
    def impossible(self) -> int:
        """Number of tokens that are not the argmax."""
        return int(self.different_N.sum())

    @property
    def unclear(self) -> int:
        """Number of tokens that are left out."""
        return int((~self.clear_N).sum())


def compare(sampled: Sequence[Sampled], *, asked: Asked) -> Compared:
    """Compares each token with the argmax after the engine's own tokens before it."""
    used = [s for s in sampled if s.tokens]
    pairs = [(s.request.tokens, s.tokens) for s in used]
    laws = zip(used, asked.target.logprobs(pairs), strict=True)
    return added([_compared(one, logits, tie=asked.rounding.tie) for one, logits in laws])


def _compared(one: Sampled, logits: Laws, *, tie: float) -> Compared:
    told, best, rows = sampler.columns([one]), logits.argmax(-1), np.arange(len(one.tokens))
    logits = logits - logits[rows, best][:, None]  # float32: half of what float64 takes
    lag = logits[rows, one.tokens]
    own = lag - np.log(np.exp(logits).sum(-1, dtype=np.float64))
    logits[rows, best] = -np.inf
    # Either convention: of the point mass sampled from, or of temperature 1 without filters.
    said = reported([one])
    return Compared(
        clear_N=logits.max(-1) < -2 * tie,
        different_N=(best != told["token_N"]) & (lag < -2 * tie),
        state_N=told["state_N"],
        position_N=told["position_N"],
        length_N=told["length_N"],
        draft_hit_N=told["draft_N"] == told["token_N"],
        gap_N=np.where(np.abs(said) < np.abs(said - own), said, said - own),
    )


def power(tokens: float, *, distance: float) -> float:
    """Returns the probability of a mismatch if each token is wrong with probability `distance`."""
    return float(1 - (1 - distance) ** tokens)


def tails(values: Ints, *, first: int, distance: float) -> dict[str, float]:
    """Returns the power of the tokens whose value lies in each octave from `first` on, or above."""
    bands = shifts.band(values)
    return {
        str(shifts.start(b)): power((bands >= b).sum(), distance=distance)
        for b in range(first, int(bands.max(initial=0)) + 1)
    }
