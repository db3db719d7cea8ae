"""Temperature 0: every token must be the target's argmax. No statistics, one mismatch decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from gfcr.audit.law import TOLERANCE
from gfcr.audit.sampler import PLAIN, Sampled, Target


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """Tokens compared with the argmax."""

    tokens: int = 0
    speculated: int = 0
    different: int = 0
    unclear: int = 0
    """Left out: the best two are closer than float32 can tell."""

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        names = ("tokens", "speculated", "different", "unclear")
        return Tally(**{n: getattr(self, n) + getattr(other, n) for n in names})


def compare(sampled: Sequence[Sampled], *, target: Target) -> Tally:
    """Compares each token with the argmax after the engine's own tokens before it."""
    used = [s for s in sampled if s.tokens]
    total = Tally()
    for one, logprobs in zip(
        used, target.logprobs([(s.prompt, s.tokens) for s in used]), strict=True
    ):
        best = np.partition(logprobs, -2, axis=-1)[:, -2:]
        clear = best[:, 1] - best[:, 0] > 2 * TOLERANCE
        differs = logprobs.argmax(-1) != np.array(one.tokens)
        far = best[:, 1] - logprobs[np.arange(len(differs)), one.tokens] > 2 * TOLERANCE
        total = total.plus(
            Tally(
                tokens=int(clear.sum()),
                speculated=int((np.array(one.state) != PLAIN)[clear].sum()),
                different=int((differs & far).sum()),
                unclear=int((~clear).sum()),
            )
        )
    return total


def power(tokens: float, *, distance: float) -> float:
    """Probability of a mismatch among tokens each wrong with probability `distance`."""
    return float(1 - (1 - distance) ** tokens)
