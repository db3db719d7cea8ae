"""Rejection sampling: the best answers of a group, each text once, for `loss.estimator: sft`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, Natural


@final
@dataclass(kw_only=True)
class BestRollouts(Filter):
    """Gives the advantage 1 to rollouts of a reward of at least `least`; the others are rejected.

    Rejected as `not_right` under `least`, as `repeated` where an earlier one has the same text
    (with `distinct`), as `not_best` behind the `keep` best, ties broken at random. `keep=0` keeps
    all (RFT), `keep=1` with a low `least` is best-of-n (RAFT).

    Hurts what is not yet solved: a prompt that is never right is never learned from, and nothing
    is unlearned. Easy prompts fill the batch with many texts unless `keep` bounds them.
    """

    paper: ClassVar[str] = "2308.01825"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True

    least: Finite = 1.0
    """Reward from which a rollout is right."""
    keep: Natural = 0
    """Most rollouts kept of a group; 0 is all."""
    distinct: bool = True
    """Whether a text is kept once."""
    kept: int = field(init=False, default=0)

    def apply(self, group: Group, *, view: View) -> Group:
        rng = view.rng("best_rollouts", group.id)
        # The sort is stable and the pool is shuffled, so that ties are broken at random.
        pool = rng.permutation(np.flatnonzero(group.kept_N))
        order = np.argsort(-group.rewards_N[pool], kind="stable")
        texts, chosen = set[str](), list[int]()
        reasons: dict[str, list[int]] = {"not_right": [], "repeated": [], "not_best": []}
        for index in map(int, pool[order]):
            text = group.rollouts[index].text
            reason = self._reason(group, index, text in texts, len(chosen))
            (reasons[reason] if reason else chosen).append(index)
            texts.add(text)
        self.kept += len(chosen)
        for reason, which in reasons.items():
            group = group.reject_rollouts(which, reason=reason)
        return group.with_advantages([1.0 if k else None for k in group.kept_N])

    def metrics(self) -> Mapping[str, float]:
        """Rollouts kept so far."""
        return {"kept": float(self.kept)}

    def _reason(self, group: Group, index: int, repeated: bool, num: int) -> str | None:
        # It is rounded as rewards are, as 0.7 itself is above the float32 that stands for it.
        if group.rewards_N[index] < np.float32(self.least):
            return "not_right"
        if repeated and self.distinct:
            return "repeated"
        return "not_best" if self.keep and num >= self.keep else None
