"""D3S: the tokens of largest advantage times entropy, few at first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.values.ranges import Count, SomeShare


@final
@dataclass(kw_only=True)
class D3s(Correction):
    """Keeps in the loss the share of an update's tokens with the largest |A_t| H_t.

    H_t is the entropy of the policy before the update at token t. The share is `first` under policy
    version 0 and `last` from version `updates` on, in equal steps in between. Tokens left out are
    out of what the loss is divided by.

    Hurts when the share stays small: what the policy is sure of is never corrected.
    """

    paper: ClassVar[str] = "2509.22115"
    origin: ClassVar[str] = "ours"
    needs_entropies: ClassVar[bool] = True
    weighs_gaps: ClassVar[bool] = False

    first: SomeShare = 0.1
    last: SomeShare = 0.2
    """Under a fifth of the tokens, as third-party notes on the paper have it."""
    updates: Count = 100
    kept: float = field(init=False, default=1.0)
    """Share of the last update's tokens."""

    def share(self, version: int) -> float:
        """Share of tokens kept by the update of a policy version."""
        return self.first + (self.last - self.first) * min(version / self.updates, 1.0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        sizes = np.concatenate([_sizes(u)[u.rollout.mask_T] for u in update])
        # Float noise in the product must not keep one token more.
        num = ceil(self.share(update[0].version) * len(sizes) - 1e-9)
        chosen = np.zeros(len(sizes), np.bool_)
        chosen[np.argsort(-sizes, kind="stable")[:num]] = True
        self.kept = num / max(len(sizes), 1)
        answers: list[Corrected] = []
        for learned in update:
            mask_T = learned.rollout.mask_T.copy()
            here, chosen = chosen[: mask_T.sum()], chosen[mask_T.sum() :]
            mask_T[mask_T] = here
            answers.append(Corrected(mask_T=mask_T))
        return answers

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's tokens that stayed in the loss."""
        return {"kept": self.kept}


def _sizes(learned: Learned) -> np.ndarray:
    assert learned.entropies_T is not None, "needs_entropies"
    return np.abs(learned.advantage_T) * learned.entropies_T
