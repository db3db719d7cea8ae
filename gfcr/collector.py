"""One batch in the making: plans rounds, starts jobs, judges groups, stops when it is full."""

from collections import Counter
from typing import final

from gfcr import batch as batches
from gfcr.errors import BatchCannotFill, GfcrError
from gfcr.runner import Runner
from gfcr.stages import BatchMap, Harvest, Job, Plan, Planner, Recaller, Referee, Retire, SampleMore
from gfcr.strategy import Strategy
from gfcr.types import Group, Rollout
from gfcr.view import RunView


@final
class Collector:
    """Makes the groups of one batch under a strategy's Control, Replay and Filter parts."""

    def __init__(self, strategy: Strategy, *, runner: Runner, view: RunView) -> None:
        self._strategy, self._runner, self.view = strategy, runner, view
        self._jobs: dict[str, Job] = {}
        self._order: dict[str, int] = {}
        self._uses: Counter[str] = Counter()
        """How often each prompt was begun: a repeat must not draw the same rollouts again."""
        self._spare: list[Rollout] = []
        """Rollouts of groups that became complete in the very step that filled the batch."""
        self._aborted: list[Rollout] = []

    def collect(self) -> None:
        """Runs rounds of generation until the batch is full or no round is planned.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent.
        """
        view = self.view
        plan = self._plan(num_groups=view.target)
        view.target = plan.target
        while plan.jobs and view.accepted < view.target:
            for job in plan.jobs:
                self._start(job)
            while self._runner.busy and view.accepted < view.target:
                for group in self._runner.advance():
                    if view.accepted < view.target:
                        self._judge(group)
                    else:
                        self._spare += group.rollouts
            view.round += 1
            if view.accepted < view.target:
                plan = self._plan(num_groups=0)
        self._stop()

    def map_batch(self) -> None:
        """Builds the signals that need all accepted groups."""
        view = self.view
        accepted = {g.id: g for g in view.groups if g.rejected is None}
        for map_ in self._strategy.hooks(BatchMap).values():
            mapped = map_.map_batch(list(accepted.values()), view=view)
            accepted = dict(zip(accepted, mapped, strict=True))
        view.groups = [accepted.get(g.id, g) for g in view.groups]

    def harvest(self) -> Harvest:
        """All that the batch produced, in the order it was begun; stops what still runs."""
        self._stop()
        begun = sorted(self.view.groups, key=lambda g: self._order[g.id])
        return Harvest(step=self.view.step, groups=tuple(begun), aborted=tuple(self._aborted))

    def _plan(self, *, num_groups: int) -> Plan:
        plan = Plan(num_groups=num_groups, target=self.view.target)
        planners = self._strategy.hooks(Planner).values()
        for planner in sorted(planners, key=lambda p: not p.begun_first):
            plan = planner.plan(plan, view=self.view)
        return self.view.fill(plan)

    def _start(self, job: Job) -> None:
        index = len(self._order)
        group_id = f"{self.view.step}:{index}:{job.prompt.id}"
        self._jobs[group_id], self._order[group_id] = job, index
        self._runner.start(job, group_id=group_id, repeat=self._uses[job.prompt.id])
        self._uses[job.prompt.id] += 1

    def _judge(self, group: Group) -> None:
        """Control decides, Replay recalls, Filter measures."""
        view = self.view
        for referee in self._strategy.hooks(Referee).values():
            action = referee.decide(group, view=view)
            if isinstance(action, SampleMore):
                job = self._jobs[group.id]
                self._runner.more(group, num_samples=action.num_samples, job=job)
                return
            if isinstance(action, Retire):
                group = group.reject(action.reason)
                break
        if group.rejected is None:
            group = self._filter(self._recall(group))
        view.groups.append(group)
        view.accepted += group.rejected is None

    def _recall(self, group: Group) -> Group:
        for recaller in self._strategy.hooks(Recaller).values():
            group = batches.join(group, rollouts=recaller.recall(group, view=self.view))
        return group

    def _filter(self, group: Group) -> Group:
        for filter_ in self._strategy.filters.values():
            if not group.kept_N.any():
                break
            group = filter_.apply(group, view=self.view)
        if group.rejected is None and not group.kept_N.any():
            reasons = [s.rejected for s in group.signals if s.rejected]
            group = group.reject(reasons[0] if reasons else "empty")
        return group

    def _stop(self) -> None:
        self._aborted += [*self._runner.take_cut(), *self._spare, *self._runner.abort()]
        self._spare = []


def check_scorable(harvest: Harvest) -> None:
    """Refuses a batch with nothing to learn from for a reason the user must mend.

    Raises:
        GfcrError: no rollout could be scored.
        BatchCannotFill: no group was completed.
    """
    rollouts = [r for g in harvest.groups for r in g.rollouts if r.origin == "fresh"]
    errors = [r.error for r in rollouts if r.reward is None]
    if rollouts and len(errors) == len(rollouts):
        raise GfcrError(
            f"update {harvest.step}: none of {len(rollouts)} rollouts could be scored; the first "
            f"error was: {errors[0]}. The rollouts are saved; mend the verifier or the "
            "Generate part and run the same command again."
        )
    if not harvest.groups:
        raise BatchCannotFill(f"update {harvest.step}: no group was completed.")
