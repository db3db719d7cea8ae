"""RLEP: right answers that an earlier run recorded join the fresh ones (2507.07451)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Harvest, Recaller, Replay, View
from gfcr.strategy import Strategy
from gfcr.types import Group, Loss, Rollout
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Experience(Replay, Recaller):
    """Recalls `num` right answers to a prompt from the records of another run, at random."""

    folder: str = ""
    """The run's `rollouts` folder."""
    num: Count = 2
    pool: dict[str, list[Rollout]] | None = field(init=False, default=None)
    """Prompt id -> right answers; None before the records were read."""
    recalled: int = field(init=False, default=0)

    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        """See `Recaller.recall`."""
        if self.pool is None:
            self.pool = {}
            for rollout in (r for g in view.recorded(self.folder) for r in g.rollouts):
                if rollout.complete and (rollout.reward or 0) >= 1:
                    self.pool.setdefault(rollout.prompt.id, []).append(rollout)
        found = self.pool.get(group.prompt.id, [])
        order = view.rng("experience", group.prompt.id).permutation(len(found))[: self.num]
        self.recalled += len(order)
        return [found[i] for i in order]

    def store(self, harvest: Harvest, *, view: View) -> None:
        """See `Replay.store`: nothing of this run is kept."""

    def holds(self) -> Iterable[str]:
        """See `Replay.holds`."""
        return [r.id for found in (self.pool or {}).values() for r in found]

    def metrics(self) -> dict[str, float]:
        """Rollouts recalled so far."""
        return {"recalled": float(self.recalled)}


def experience(*, group_size: int = 4, folder: str = "", num: int = 2) -> Strategy:
    """Experience replay from another run."""
    return Strategy(
        name="experience",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        replays={"experience": Experience(folder=folder, num=num)},
        loss=Loss(off_policy="behaviour"),
        group_size=group_size,
    )
