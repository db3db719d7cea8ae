"""RL-ZVP: in groups without variance, tokens count by the entropy of their law."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.types import Floats


@final
@dataclass(kw_only=True)
class RlZvp(Correction):
    """Multiplies advantages of dead groups by H_t where positive, by max H - H_t where negative.

    With the filter of the same name, whose dead groups have the advantages +-alpha:
        all right   A_t = alpha H_t              decisions are confirmed, the obvious is left alone
        all wrong   A_t = -alpha (max H - H_t)   certainty is punished, exploration is not
    H_t is the entropy of the policy before the update at token t, a constant to the gradient; the
    maximum is the rollout's. A group is dead where its rollouts in the update, two or more, have
    one reward of the verifier.

    Hurts with a sampled -log p in the place of H_t, which in the mean is an entropy bonus and no
    more: so it asks the trainer for entropies, and its pass over the tokens takes longer.
    """

    paper: ClassVar[str] = "2509.21880"
    origin: ClassVar[str] = "S"
    needs_entropies: ClassVar[bool] = True
    weighs_gaps: ClassVar[bool] = False

    shaped: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""
    entropy: float = field(init=False, default=0.0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        rewards: dict[str, list[float]] = defaultdict(list)
        for learned in update:
            rewards[learned.rollout.group_id].append(learned.rollout.reward or 0.0)
        groups = [rewards[u.rollout.group_id] for u in update]
        # The filter of this name tells it so, too: a rollout alone has no siblings to be like.
        dead = [len(group) > 1 and np.ptp(group) <= 1e-6 for group in groups]
        self.shaped = float(np.mean(dead))
        spread = [_entropies(u)[u.rollout.mask_T] for u in update]
        self.entropy = float(np.mean(np.concatenate(spread)))
        pairs = zip(update, dead, strict=True)
        return [Corrected(weight=_weight(u)) if d else Corrected() for u, d in pairs]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts in dead groups; mean entropy of its tokens."""
        return {"shaped": self.shaped, "entropy": self.entropy}


def _weight(learned: Learned) -> Floats:
    entropies_T = _entropies(learned)
    # A dead group has one advantage throughout, whose sign says whether all were right.
    if learned.advantage_T.sum() >= 0:
        return entropies_T
    largest = entropies_T[learned.rollout.mask_T].max(initial=0.0)
    return np.where(learned.rollout.mask_T, largest - entropies_T, np.float32(0))


def _entropies(learned: Learned) -> Floats:
    assert learned.entropies_T is not None, "needs_entropies"
    return learned.entropies_T
