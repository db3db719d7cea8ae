"""Resumes what earlier updates had to cut."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.part import Recipe
from gfcr.stages import BATCH_FULL, Generate, Harvest, Job, Plan, Planner, Replay, View
from gfcr.types import Rollout
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class PartialRollouts(Replay, Planner):
    """Keeps the groups cut when a batch was full, and continues them first in the next one.

    Finished rollouts of such groups are kept as they are, unfinished ones are continued token by
    token: a rollout then has tokens of several policies (`Rollout.versions_T`), so train with
    a `correction`. A rollout with a token older than `max_staleness` versions is dropped and begun
    anew, which keeps its prompt in the mix. Its age is that at the update that its batch is begun
    for: `schedule: async` with `late` other than `wait` may train the batch at a later one.

    Pair it with `oversample`. Holds at most the groups begun for one batch. Hurts when the policy
    moves fast (about 40 % of the tokens are off-policy in the paper's runs).
    """

    paper: ClassVar[str] = "2509.18521"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "P"

    max_staleness: Count = 4
    """Most versions between a token's sampling and that update (the paper: no bound)."""
    buffer: list[tuple[Rollout, ...]] = field(init=False, default_factory=list[tuple[Rollout, ...]])
    """The rollouts of each group cut, in the order they will be resumed."""
    resumed: int = field(init=False, default=0)
    dropped: int = field(init=False, default=0)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if all(part.resumes for part in strategy.hooks(Generate).values()):
            return None
        return (
            "generate begins cut groups anew instead of going on from their partial rollouts, so "
            "that what was sampled would be lost. Use a generate part that resumes, such as sample."
        )

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round:
            return plan
        self.resumed = self.dropped = 0
        buffer, self.buffer = self.buffer, []
        return plan.add([self._job(group, view=view) for group in buffer])

    def store(self, harvest: Harvest, *, view: View) -> None:
        groups: dict[str, list[Rollout]] = {}
        for rollout in harvest.aborted:
            # Those a Watcher aborted, or a failed Generate, are not to be continued.
            if rollout.complete or rollout.detail == BATCH_FULL:
                groups.setdefault(rollout.group_id, []).append(rollout)
        self.buffer += [tuple(group) for group in groups.values()]

    def holds(self) -> Iterable[str]:
        return [r.id for group in self.buffer for r in group]

    def metrics(self) -> Mapping[str, float]:
        """Tokens resumed and dropped for age in the last batch; groups and tokens now held."""
        return {
            "resumed_tokens": float(self.resumed),
            "dropped_tokens": float(self.dropped),
            "held_groups": float(len(self.buffer)),
            "held_tokens": float(sum(len(r) for group in self.buffer for r in group)),
        }

    def _job(self, group: tuple[Rollout, ...], *, view: View) -> Job:
        young = [r for r in group if _age(r, update=view.step) <= self.max_staleness]
        tokens = sum(len(r) for r in young)
        self.resumed += tokens
        self.dropped += sum(len(r) for r in group) - tokens
        job = view.job(group[0].prompt, num_samples=len(group))
        return replace(job, resume=tuple(young))


def _age(rollout: Rollout, *, update: int) -> int:
    sampled = rollout.versions_T[rollout.mask_T]
    # The oldest token counts, as a rollout that is resumed has tokens of several policies.
    return update - int(sampled.min()) if len(sampled) else 0
