"""Group-relative advantages of episodes that are several rollouts each."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.stages import EPISODE, Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class EpisodeAdvantage(Filter):
    """Compares each episode with its group's, and gives its advantage to all rollouts of it.

    With r_e the reward of the last kept rollout of episode e, of the E episodes of a group, and
    A = `group_advantage` of `kind` over r_1 ... r_E:
        A_i = A_e for every kept rollout i of episode e
    A rollout that is of no episode is one by itself; without episodes it is `group_advantage`.

    Hurts where an episode's number of turns goes with its outcome, as when the policy gives up
    early: each of its turns is trained, so that long episodes have more of the gradient.
    """

    paper: ClassVar[str] = "2402.03300"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True

    kind: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4

    def fewest(self) -> int:
        return self._map().fewest()

    def apply(self, group: Group, *, view: View) -> Group:
        # A recalled rollout's episode may have the number of one made now: the group's id differs.
        keys = [(r.group_id, r.notes.get(EPISODE, r.id)) for r in group.rollouts]
        kept = group.kept_N
        last = {key: i for i, (key, k) in enumerate(zip(keys, kept, strict=True)) if k}
        outcomes = replace(
            group,
            rollouts=tuple(group.rollouts[i] for i in last.values()),
            signals=tuple(group.signals[i] for i in last.values()),
        )
        mapped = self._map().apply(outcomes, view=view)
        of = {key: s.advantage for key, s in zip(last, mapped.signals, strict=True)}
        given = [of[key] if k else None for key, k in zip(keys, kept, strict=True)]
        return group.with_advantages(given).with_values(episodes=float(len(last)))

    def _map(self) -> GroupAdvantage:
        return GroupAdvantage(kind=self.kind, epsilon=self.epsilon)
