"""Tail batching: prompts with long rollouts wait for a batch of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.part import Recipe
from gfcr.stages import (
    Allocator,
    Control,
    Harvest,
    Job,
    Observer,
    Plan,
    Planner,
    Replay,
    View,
)
from gfcr.types import Prompt


@final
@dataclass(kw_only=True)
class RollPacker(Control, Planner, Allocator, Observer):
    """Short rounds defer the prompts that are last to finish; long rounds catch up on them.

    For batches of P groups a short round begins ceil(`factor` x P) prompts and is full with the
    first P groups; the prompts of the others are queued, their tokens lost (`aborted`). Once the
    queue holds P prompts, a long round begins those P afresh and cuts nothing. All tokens are of
    the current policy, and each prompt is trained on once an epoch.

    The paper also begins more rollouts of a prompt than are kept: that is `darts`. A prompt whose
    group a filter rejects has had its turn.

    Hurts with a short tail: each deferred prompt is paid for twice in part. Between long rounds
    updates see short rollouts alone, so that difficulty comes in waves.
    """

    paper: ClassVar[str] = "2509.21009"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "S"

    factor: Annotated[float, Interval(ge=1, le=1000)] = 1.25
    """Prompts begun in a short round for each one trained on."""
    queue: list[Prompt] = field(init=False, default_factory=list[Prompt])
    """Prompts deferred, the first one first."""
    begun: dict[str, Prompt] = field(init=False, default_factory=dict[str, Prompt])
    """Prompt id -> prompt, of the groups in the making."""
    long: bool = field(init=False, default=False)
    """Whether the last batch was a long round."""
    deferred: int = field(init=False, default=0)
    """Prompts deferred by the last batch."""

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        resuming = [name for name, p in strategy.hooks(Planner).items() if isinstance(p, Replay)]
        if not resuming:
            return None
        return (
            f"{', '.join(resuming)} would begin the same prompts again that it queues, so that "
            "they are trained on twice an epoch. Remove one of them."
        )

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round:
            return plan
        wanted = plan.target - len(plan.jobs) - plan.in_flight
        self.long = wanted > 0 and len(self.queue) >= plan.target
        if self.long:
            taken, self.queue = self.queue[:wanted], self.queue[wanted:]
            plan = plan.add(view.job(prompt) for prompt in taken)
            # No group is begun beyond the queue's, so that none is cut.
            return replace(plan, num_groups=len(plan.jobs))
        begun = ceil(plan.target * self.factor - 1e-9) - plan.in_flight
        return replace(plan, num_groups=max(plan.num_groups, begun))

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        self.begun |= {job.prompt.id: job.prompt for job in jobs}
        return jobs

    def observe(self, harvest: Harvest, *, view: View) -> None:
        done = {group.id for group in harvest.groups}
        # A Watcher's cuts of complete groups are among the aborted, too.
        cut = {r.group_id: r.prompt for r in harvest.aborted if r.group_id not in done}
        # A group's id ends in its prompt's, of which a rollout may have been given another wording.
        names = {group_id: group_id.split(":", 2)[-1] for group_id in (*done, *cut)}
        self.queue += [self.begun.get(names[group_id], own) for group_id, own in cut.items()]
        self.deferred = len(cut)
        for name in names.values():
            self.begun.pop(name, None)

    def metrics(self) -> Mapping[str, float]:
        """Returns whether the last batch was long, prompts it deferred, prompts in the queue."""
        return {
            "long": float(self.long),
            "deferred": float(self.deferred),
            "queued": float(len(self.queue)),
        }
