"""Experience replay: a share of each batch are groups that were trained on before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.replay._whole import again, kept_rollouts
from gfcr.stages import Harvest, Plan, Planner, Replay, View
from gfcr.types import Rollout
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class ExperienceReplay(Replay, Planner):
    """Takes a share of each batch's groups from the last ones made, and samples the others.

    Of a batch of B groups `share` B, rounded down, are drawn at random, each at most once, from the
    `capacity` accepted groups made last: first in, first out. They are trained as they are, with
    the rewards and the log-probs that they were sampled with, and nothing is sampled for them. In
    the long run 1 - `share` of the tokens are generated, and each group is trained on 1 / (1 -
    `share`) times in the mean; the oldest is capacity / ((1 - share) B) updates old.

    A large `share` or `capacity` makes what is learned from staler, a small `capacity` less
    diverse. Weigh it by a `correction`. Hurts where generating is cheap beside training, as then
    nothing is saved.
    """

    paper: ClassVar[str] = "2604.08706"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "S"

    share: Annotated[float, Interval(ge=0, lt=1)] = 0.5
    capacity: Count = 64
    """Groups."""
    kept: list[tuple[Rollout, ...]] = field(init=False, default_factory=list[tuple[Rollout, ...]])
    """The rollouts of each group, the oldest first."""
    replayed: int = field(init=False, default=0)
    """Groups replayed in the last batch."""

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round:
            return plan
        wanted = int(self.share * plan.num_groups + 1e-9)
        self.replayed = min(wanted, plan.unfilled, len(self.kept))
        rng = view.rng("experience_replay", view.step)
        places = [int(i) for i in rng.permutation(len(self.kept))[: self.replayed]]
        drawn = [self.kept[i] for i in places]
        return plan.add(again(group, view=view) for group in drawn)

    def store(self, harvest: Harvest, *, view: View) -> None:
        made = [kept_rollouts(g) for g in harvest.groups if g.rejected is None]
        fresh = [group for group in made if group and all(r.origin == "fresh" for r in group)]
        self.kept = [*self.kept, *fresh][-self.capacity :]

    def holds(self) -> Iterable[str]:
        return [rollout.id for group in self.kept for rollout in group]

    def metrics(self) -> Mapping[str, float]:
        """Groups replayed in the last batch, and groups in memory."""
        return {"replayed": float(self.replayed), "kept": float(len(self.kept))}
