"""One right rollout under a hint in the place of a wrong one."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite


@final
@dataclass(kw_only=True)
class Scaffolded(Filter):
    """Keeps the first right rollout under a hint, in the place of the last plain one.

    Other rollouts under a hint (note `hint`) are rejected, as `hint`, and the plain one that gave
    way as `replaced`: a group has as many rollouts as were sampled plainly. So in Scaf-GRPO. Put
    the advantage map behind it.

    Hurts where the hint was most of the solution: see `scaffold`.
    """

    paper: ClassVar[str] = "2510.19807"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    threshold: Finite = 0.5

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return too_late(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        # One that was recalled is neither: its hint, if any, was given to another group.
        fresh = [i for i, r in enumerate(group.rollouts) if r.origin == "fresh"]
        hinted = [i for i in fresh if "hint" in group.rollouts[i].notes]
        kept_N, right_N = group.kept_N, group.raw_rewards_N >= self.threshold
        plain = [i for i in fresh if i not in hinted and kept_N[i]]
        right = [i for i in hinted if kept_N[i] and right_N[i]]
        # Hints are asked for where no plain rollout is right, so the one that gives way is wrong.
        chosen = right[:1]
        group = group.reject_rollouts([i for i in hinted if i not in chosen], reason="hint")
        return group.reject_rollouts(plain[-1:] if chosen else [], reason="replaced")
