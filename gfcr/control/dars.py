"""Samples hard prompts more, until they weigh as much in the update as easier ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval

from gfcr.control._outcomes import outcomes
from gfcr.control._rounds import forget, uncounted
from gfcr.part import Recipe
from gfcr.stages import Control, Harvest, Observer, Referee, SampleMore, View
from gfcr.types import Group
from gfcr.values.ranges import Finite


@final
@dataclass(kw_only=True)
class Dars(Control, Referee, Observer):
    """Adds rollouts, once, to each prompt of which fewer than half of the first n are right.

    With success rate a (0 counts as 0.5/n), S the mean |advantage| of a rollout, and A_peak what n
    rollouts of a prompt with a = 1/2 sum up to:
        dr_grpo   S = 2 a (1-a),        A_peak = n/2
        grpo      S = 2 sqrt(a (1-a)),  A_peak = n
        et        extra = ceil((A_peak - n S) / S): every prompt sums up to A_peak
        hw        extra = ceil((2 (1-a) A_peak - n S) / S): the harder, the more
    No group has more than `high` rollouts in all (the paper: 32 for et, 64 for hw). Give the
    advantage map the same `kind`. A rollout that cannot be scored counts for neither n nor a.

    Hurts where hard prompts are out of reach: `high` rollouts of each are paid for and stay dead.
    """

    paper: ClassVar[str] = "2508.13755"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "P"

    schedule: Literal["et", "hw"] = "et"
    """Equal treatment, or hardness-weighted."""
    kind: Literal["dr_grpo", "grpo"] = "dr_grpo"
    high: Annotated[int, Interval(ge=2, le=100000)] = 32
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    extras: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """Rollouts asked for on top of each group in the making."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return uncounted(strategy)

    def extra(self, *, right: int, num: int) -> int:
        """Rollouts to add where `right` of the first `num` are right, were there no bound."""
        rate = max(right, 0.5) / num
        if rate >= 0.5:
            return 0
        share = rate * (1 - rate) if self.kind == "dr_grpo" else sqrt(rate * (1 - rate))
        peak = num / 2 if self.kind == "dr_grpo" else num
        aim = peak * (2 * (1 - rate) if self.schedule == "hw" else 1)
        # Float noise must not make one more of a whole number.
        return max(0, ceil(aim / (2 * share) - num - 1e-9))

    def decide(self, group: Group, *, view: View) -> SampleMore | None:
        right, scored = outcomes(group, threshold=self.threshold)
        # A group that is resumed had its extra rollouts in the batch before, as its size tells.
        if group.id in self.extras or not scored or len(group.rollouts) > view.group_size:
            return None
        room = max(0, self.high - len(group.rollouts))
        extra = self.extras[group.id] = min(self.extra(right=right, num=scored), room)
        return SampleMore(num_samples=extra) if extra else None

    def observe(self, harvest: Harvest, *, view: View) -> None:
        extras = [self.extras[g.id] for g in harvest.groups if g.id in self.extras]
        raised = sum(extra > 0 for extra in extras)
        told = {"extra": float(sum(extras)), "raised": raised / max(len(extras), 1)}
        self.last = told if extras else {}
        forget(self.extras, harvest)

    def metrics(self) -> Mapping[str, float]:
        """Rollouts added in the last batch, and the share of prompts that got some."""
        return self.last
