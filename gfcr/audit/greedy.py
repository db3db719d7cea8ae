"""Temperature 0: every token must be the target's argmax. No statistics, one mismatch decides."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import final

import numpy as np

from gfcr.audit import reported, shifts
from gfcr.audit.rounding import Rounding
from gfcr.audit.sampler import PLAIN, VERIFIED, Sampled, Target


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of tokens that were compared with the argmax."""

    tokens: int = 0
    speculated: int = 0
    different: int = 0
    unclear: int = 0
    """Tokens left out because the best two are closer than the engine's dtype can tell."""
    unreported: int = 0
    positions: Counter[int] = field(default_factory=Counter[int])
    """Number of clear tokens by band of position."""
    drafts: Counter[int] = field(default_factory=Counter[int])
    """Number of clear tokens of verification steps, by band of the draft's length."""
    logprobs: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])

    def plus(self, other: "Tally") -> "Tally":
        """Returns the sum of both tallies."""
        names = [f.name for f in fields(Tally) if f.name != "logprobs"]
        sums = {n: getattr(self, n) + getattr(other, n) for n in names}
        return Tally(**sums, logprobs=reported.plus(self.logprobs, other.logprobs))


def compare(sampled: Sequence[Sampled], *, target: Target, rounding: Rounding) -> Tally:
    """Compares each token with the argmax after the engine's own tokens before it."""
    used = [s for s in sampled if s.tokens]
    total = Tally()
    pairs = [(s.prompt, s.tokens) for s in used]
    for one, logits in zip(used, target.logprobs(pairs), strict=True):
        best, rows = logits.argmax(-1), np.arange(len(one.tokens))
        logits = logits - logits[rows, best][:, None]  # float32: half of what float64 takes
        own = logits[rows, one.tokens] - np.log(np.exp(logits).sum(-1, dtype=np.float64))
        differs = best != np.array(one.tokens)
        far = logits[rows, one.tokens] < -2 * rounding.tie
        logits[rows, best] = -np.inf
        clear = logits.max(-1) < -2 * rounding.tie
        state, draft = np.array(one.state), np.array(one.draft)
        # Either convention: of the point mass sampled from, or of temperature 1 without filters.
        said = reported.gaps([one])
        gap = np.where(np.abs(said) < np.abs(said - own), said, said - own)
        use = clear & (state != PLAIN)
        positions = shifts.band(np.arange(len(clear), dtype=np.int32))[clear]
        total = total.plus(
            Tally(
                tokens=int(clear.sum()),
                speculated=int((state != PLAIN)[clear].sum()),
                different=int((differs & far).sum()),
                unclear=int((~clear).sum()),
                unreported=int(np.isnan(gap).sum()),
                positions=Counter(positions.tolist()),
                drafts=Counter(shifts.band(np.array(one.length, np.int32))[use].tolist()),
                logprobs=reported.table(
                    gap, state_N=state, hit_N=(state == VERIFIED) & (draft == np.array(one.tokens))
                ),
            )
        )
    return total


def power(tokens: float, *, distance: float) -> float:
    """Returns the probability of a mismatch if each token is wrong with probability `distance`."""
    return float(1 - (1 - distance) ** tokens)


def tails(bands: Counter[int], *, first: int, distance: float) -> dict[str, float]:
    """Returns the power of the tokens from each band on, by the band's first value."""
    return {
        str(shifts.start(b)): power(
            sum(num for other, num in bands.items() if other >= b), distance=distance
        )
        for b in range(first, max(bands, default=0) + 1)
    }
