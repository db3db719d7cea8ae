"""TRR++: a baseline for each role and kind of problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.filter._standard import standardised
from gfcr.handles import kind_of, role_of
from gfcr.stages import BatchMap, Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class TaskRelative(Filter, BatchMap):
    """A = (r - mean) / (deviation + epsilon), over the batch's rollouts of one role and kind.

    A role is to propose problems or to solve them, a kind is what `Prompt.meta["kind"]` says: with
    three kinds there are six baselines, so that a proposal is compared with other proposals of its
    kind, wherever the rewards of others lie. Mean and deviation count each kept rollout once.

    Hurts in small batches, which have few rollouts of each; a lone one has an advantage of 0. Where
    prompts have neither role nor kind it is one baseline for the batch.
    """

    paper: ClassVar[str] = "2505.03335"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    means: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def apply(self, group: Group, *, view: View) -> Group:
        pairs = zip(group.rewards_N.tolist(), group.kept_N, strict=True)
        return group.with_advantages([reward if kept else None for reward, kept in pairs])

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        cells: dict[tuple[str, str], list[int]] = {}
        for index, group in enumerate(groups):
            cells.setdefault((role_of(group.prompt), kind_of(group.prompt)), []).append(index)
        made, self.means = list(groups), {}
        for (role, kind), which in cells.items():
            own = [groups[i] for i in which]
            scaled, scale = standardised(own, per="rollouts", epsilon=self.epsilon)
            self.means[f"{role}/{kind}" if kind else role] = scale.mean
            for index, group in zip(which, scaled, strict=True):
                made[index] = group
        return made

    def metrics(self) -> Mapping[str, float]:
        """Mean reward by role and kind in the last batch."""
        return {f"mean/{cell}": mean for cell, mean in self.means.items()}
