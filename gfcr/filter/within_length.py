"""Scores rollouts by whether they are short."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.stages import Filter, View
from gfcr.types import Group, Rollout
from gfcr.values.ranges import SomeShare


@final
@dataclass(kw_only=True)
class WithinLength(Filter):
    """Gives the score `within_length`: 1 up to `limit` of the token cap, else 0; rejects nothing.

    The length reward of GDPO's experiments: sum it with others by `gdpo`. Counts the tokens that
    the policy sampled. With `right_only` a wrong rollout scores 0 whatever its length, so that
    being short is worth nothing by itself.

    Hurts where answers need more than the limit: without `right_only` short wrong ones win.
    """

    paper: ClassVar[str] = "2601.05242"
    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    limit: SomeShare = 0.5
    """Share of `sampling.max_tokens`."""
    right_only: bool = False
    """Whether a rollout without a positive reward scores 0."""

    def apply(self, group: Group, *, view: View) -> Group:
        most = self.limit * view.sampling.max_tokens
        return group.with_scores("within_length", [self._score(r, most) for r in group.rollouts])

    def _score(self, rollout: Rollout, most: float) -> float:
        right = not self.right_only or (rollout.reward or 0.0) > 0
        return float(right and int(rollout.mask_T.sum()) <= most)
