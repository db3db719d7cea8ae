"""One batch in the making: plans and starts jobs, judges groups, stops when it is full."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, final

from gfcr.errors import BatchCannotFill, GfcrError, asking, shown
from gfcr.loop import batch as batches
from gfcr.loop.cell import Cell
from gfcr.loop.custody import Custody
from gfcr.loop.guard import (
    check_group,
    check_groups,
    check_numbers,
    check_recalled,
    is_count,
    misfit,
)
from gfcr.loop.rules import Rules
from gfcr.loop.runner import Runner
from gfcr.loop.view import RunView
from gfcr.loop.view import shown as as_shown
from gfcr.stages import (
    Allocator,
    BatchMap,
    Harvest,
    Job,
    Plan,
    Planner,
    Recaller,
    Referee,
    Retire,
    SampleMore,
    Selector,
)
from gfcr.strategy import Strategy
from gfcr.types import Group, Rollout


@final
class Collector:
    """Makes the groups of one batch under a strategy's Control, Replay and Filter parts."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        runner: Runner,
        view: RunView,
        custody: Custody,
        keeps: bool,
    ) -> None:
        """Begins a batch; `keeps` says that what it leaves in flight goes on in the next one."""
        self._strategy, self._runner, self.view = strategy, runner, view
        self._custody, self._shown = custody, as_shown(view)
        self._rules = Rules(sampling=view.sampling, corrected=strategy.corrected, custody=custody)
        self._keeps = keeps
        self._numbers: dict[str, int] = {}
        """In what order the groups were begun."""
        self._uses: Counter[str] = Counter()
        """How often each prompt was begun: a repeat must not draw the same rollouts again."""
        self._aborted: list[Rollout] = []
        self._asides: list[Rollout] = []

    def collect(self) -> None:
        """Begins groups and judges those complete, until the batch is full or none is begun.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent.
        """
        view, runner = self.view, self._runner
        plan = self._plan(max(0, self._missing))
        view.aim(plan.target)
        self._begin(plan)
        while view.accepted < view.target and runner.num_groups:
            runner.advance()
            while view.accepted < view.target and (cell := runner.take()) is not None:
                self._judge(cell)
            if self._missing > 0:
                self._begin(self._plan(0))
        self.end(keeps=self._keeps)

    def map_batch(self) -> None:
        """Builds the signals that need all accepted groups."""
        view = self.view
        accepted = {g.id: g for g in view.groups if g.rejected is None}
        for name, map_ in self._strategy.hooks(BatchMap).items():
            before = list(accepted.values())
            with asking(name):
                mapped = list(map_.map_batch(list(before), view=self._shown))
            mapped = check_groups(mapped, before=before, by=name)
            accepted = dict(zip(accepted, mapped, strict=True))
        view.mapped(accepted)

    def end(self, *, keeps: bool) -> None:
        """Ends the batch: what is in flight goes on in the next one, or is cut here and now."""
        cut = self._runner.take_cut() if keeps else self._runner.cut()
        self._custody.take(cut)
        self._aborted += cut
        self._asides += self._runner.take_asides()

    def harvest(self) -> Harvest:
        """All that the batch produced, in the order it was begun."""
        begun = sorted(self.view.groups, key=lambda g: self._numbers[g.id])
        return Harvest(
            step=self.view.step,
            groups=tuple(begun),
            aborted=tuple(self._aborted),
            asides=tuple(self._asides),
        )

    @property
    def _missing(self) -> int:
        """Accepted groups that the batch lacks, should all in flight be accepted."""
        return self.view.target - self.view.accepted - self._runner.num_groups

    def _begin(self, plan: Plan) -> None:
        """Asks of which prompts and how groups are begun; and begins them."""
        jobs = self._allocate([*plan.jobs, *self._select(plan.unfilled)])
        for job in jobs:
            self._start(job)
        if jobs:
            self.view.started()

    def _plan(self, num_groups: int) -> Plan:
        plan = Plan(
            num_groups=num_groups,
            target=self.view.target,
            in_flight=self._runner.num_groups,
            missing=self._missing,
        )
        for name, planner in self._strategy.hooks(Planner).items():
            before = plan.jobs
            with asking(name):
                plan = planner.plan(plan, view=self._shown)
            plan = self._rules.check(plan, before=before, by=name)
        return plan

    def _select(self, num: int) -> Sequence[Job]:
        chosen = next(iter(self._strategy.hooks(Selector).items()), None)
        if chosen is None or not num:
            by, prompts = "prompts", self.view.draw(num)
        else:
            by, selector = chosen
            with asking(by):
                prompts = list(selector.select(num, view=self._shown))
        return self._rules.check_selected(list(map(self.view.job, prompts)), num=num, by=by)

    def _allocate(self, jobs: Sequence[Job]) -> Sequence[Job]:
        for name, allocator in self._strategy.hooks(Allocator).items():
            with asking(name):
                allocated = list(allocator.allocate(jobs, view=self._shown))
            jobs = self._rules.check_allocated(allocated, before=jobs, by=name)
        return jobs

    def _start(self, job: Job) -> None:
        group_id = f"{self.view.step}:{self._uses.total()}:{job.prompt.id}"
        self._runner.start(job, group_id=group_id, repeat=self._uses[job.prompt.id])
        self._uses[job.prompt.id] += 1

    def _judge(self, cell: Cell) -> None:
        """Control decides, Replay recalls, Filter measures."""
        group = cell.group
        assert group is not None, "only complete groups are judged"
        self._custody.take(group.rollouts)
        for name, referee in self._strategy.hooks(Referee).items():
            with asking(name):
                action: Any = referee.decide(group, view=self._shown)
            if not isinstance(action, SampleMore | Retire | None):
                raise misfit(name, f"answered {shown(action)}: return SampleMore, Retire or None")
            if isinstance(action, SampleMore) and not is_count(action.num_samples):
                raise misfit(name, f"answered {shown(action)}: give 1 to a million")
            if isinstance(action, SampleMore):
                check_numbers(action.notes, by=name, what=f"the notes of {shown(action)}")
                self._runner.more(cell, action=action)
                return
            if isinstance(action, Retire):
                group = group.reject(action.reason)
                break
        if group.rejected is None:
            group = self._filter(self._recall(group))
        self._numbers[group.id] = cell.number
        self.view.judged(group)

    def _recall(self, group: Group) -> Group:
        for name, recaller in self._strategy.hooks(Recaller).items():
            with asking(name):
                recalled = list(recaller.recall(group, view=self._shown))
            recalled = check_recalled(recalled, group=group, custody=self._custody, by=name)
            self._custody.join(recalled)
            group = batches.join(group, rollouts=recalled)
        return group

    def _filter(self, group: Group) -> Group:
        for name, filter_ in self._strategy.filters.items():
            if not group.kept_N.any():
                break
            address, before = f"filters.{name}", group
            with asking(address):
                group = filter_.apply(group, view=self._shown)
            group = check_group(group, before=before, by=address)
        if group.rejected is None and not group.kept_N.any():
            reasons = [s.rejected for s in group.signals if s.rejected]
            group = group.reject(reasons[0] if reasons else "empty")
        return group


def check_harvest(harvest: Harvest) -> None:
    """Refuses a batch with nothing to learn from for a reason the user must mend.

    Raises:
        GfcrError: no rollout could be scored.
        BatchCannotFill: no group was completed.
    """
    where = f"update {harvest.step}"
    check_scorable((r for g in harvest.groups for r in g.rollouts), where=where)
    if not harvest.groups:
        raise BatchCannotFill(f"{where}: no group was completed.")


def check_scorable(rollouts: Iterable[Rollout], *, where: str) -> None:
    """Vouches that at least one fresh rollout has a reward, if there are any.

    Raises:
        GfcrError: none has; gives the first one's error.
    """
    fresh = [r for r in rollouts if r.origin == "fresh"]
    if fresh and all(r.reward is None for r in fresh):
        raise GfcrError(
            f"{where}: none of {len(fresh)} rollouts could be scored; the first error was: "
            f"{fresh[0].error or 'the verifier gave no reward and no reason'}. Mend the verifier "
            "or the Generate part and run the same command again."
        )
