"""One batch in the making: plans and starts jobs, judges groups, stops when it is full."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from gfcr.errors import BatchCannotFill, GfcrError, asking, shown
from gfcr.loop import batch as batches
from gfcr.loop.cell import Cell
from gfcr.loop.checks import check_group, check_groups, check_numbers, check_recalled, misfit
from gfcr.loop.jobs import Rules
from gfcr.loop.known import Known
from gfcr.loop.metrics import not_judged
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
from gfcr.values.numbers import is_count


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A batch in the making as a checkpoint keeps it, beside its groups in flight."""

    number: int
    step: int
    version: int
    target: int
    round: int
    groups: tuple[Group, ...]
    """The groups that have been judged."""
    begun: tuple[str, ...]
    """Ids of all groups of the batch, in the order they were begun."""
    uses: Mapping[str, int]
    aborted: tuple[Rollout, ...]
    asides: tuple[Rollout, ...]


@final
class Collector:
    """Makes the groups of one batch under a strategy's Control, Replay and Filter parts."""

    def __init__(self, strategy: Strategy, *, runner: Runner, view: RunView, known: Known) -> None:
        self._strategy, self._runner, self.view = strategy, runner, view
        self._known, self._shown = known, as_shown(view)
        self._rules = Rules(sampling=view.sampling, corrected=strategy.corrected, known=known)
        self.version = view.version
        """Policy version in the engine when the batch was opened; replayed tokens may be older."""
        self._begun: dict[str, None] = {}
        """Ids of the batch's groups, in the order they were begun."""
        self._live: dict[str, None] = {}
        """Ids of the groups that have not been judged yet."""
        self._offered: deque[Cell] = deque()
        """Complete groups that wait to be judged."""
        self._uses: Counter[str] = Counter()
        """How often each prompt was begun: a repeat must not draw the same rollouts again."""
        self._aborted: list[Rollout] = []
        self._asides: list[Rollout] = []

    @property
    def done(self) -> bool:
        """Returns whether the batch is full, or nothing is in the making for it."""
        return self.view.num_accepted >= self.view.target or not self._live

    def begin(self) -> None:
        """Begins the first groups.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent.
        """
        plan = self._plan(max(0, self._missing))
        self.view.target = plan.target
        self._begin(plan)

    def owns(self, cell: Cell) -> bool:
        """Tells whether a group was begun for this batch and has not been judged."""
        return cell.id in self._live

    def offer(self, cell: Cell) -> None:
        """Queues a complete group of this batch for judging."""
        self._offered.append(cell)

    def turn(self) -> None:
        """Judges complete groups until the batch is full, and begins those that it still lacks.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent.
        """
        while self.view.num_accepted < self.view.target and self._offered:
            self._judge(self._offered.popleft())
        if self._missing > 0:
            # Only a Planner refills: without one the batch ends when none of its groups is live.
            self._begin(self._plan(0))

    def map_batch(self) -> None:
        """Asks each BatchMap for the signals that need all accepted groups."""
        view = self.view
        accepted = {g.id: g for g in view.groups if g.rejected is None}
        for name, map_ in self._strategy.hooks(BatchMap).items():
            before = list(accepted.values())
            with asking(name):
                mapped = list(map_.map_batch(list(before), view=self._shown))
            mapped = check_groups(mapped, before=before, by=name)
            accepted = dict(zip(accepted, mapped, strict=True))
        view.mapped(accepted)

    def end(self) -> None:
        """Cuts the groups that are still in flight for the batch."""
        # The runner has handed over the groups that were offered, and no longer cuts them.
        cut = [r for cell in self._offered for r in cell.cut()] + self._runner.cut(self._begun)
        self._aborted += cut
        self._asides += self._runner.take_asides(self._begun)
        self._offered.clear()
        self._live.clear()

    def harvest(self) -> Harvest:
        """Returns all that the batch produced, its groups in the order they were begun."""
        number = {group_id: n for n, group_id in enumerate(self._begun)}
        return Harvest(
            step=self.view.step,
            # The order in which groups were judged depends on how long verifiers took.
            groups=tuple(sorted(self.view.groups, key=lambda g: number[g.id])),
            aborted=tuple(self._aborted),
            asides=tuple(self._asides),
        )

    def state(self) -> Opened:
        """Returns the batch for a checkpoint; its groups in flight are in `Runner.state_dict`."""
        # The runner keeps those of groups that are judged until the batch ends, not longer.
        self._aborted += self._runner.take_cut(self._begun)
        self._asides += self._runner.take_asides(self._begun)
        view = self.view
        return Opened(
            number=view.number,
            step=view.step,
            version=self.version,
            target=view.target,
            round=view.round,
            groups=tuple(view.groups),
            begun=tuple(self._begun),
            uses=dict(self._uses),
            aborted=tuple(self._aborted),
            asides=tuple(self._asides),
        )

    def go_on(self, state: Opened) -> None:
        """Continues the batch that a checkpoint has kept."""
        self.version, self._uses = state.version, Counter(state.uses)
        self._aborted, self._asides = list(state.aborted), list(state.asides)
        self._begun = dict.fromkeys(state.begun)
        judged = {group.id for group in state.groups}
        self._live = dict.fromkeys(i for i in state.begun if i not in judged)
        self.view.go_on(state.groups, target=state.target, round=state.round)

    @property
    def _missing(self) -> int:
        """Returns how many accepted groups the batch lacks if all those in flight are accepted."""
        return self.view.target - self.view.num_accepted - len(self._live)

    def _begin(self, plan: Plan) -> None:
        """Selects prompts for the plan's open groups, allocates compute to jobs and starts them."""
        jobs = self._allocate([*plan.jobs, *self._select(plan.unfilled)])
        for job in jobs:
            self._start(job)
        if jobs:
            self.view.round += 1

    def _plan(self, num_groups: int) -> Plan:
        plan = Plan(
            num_groups=num_groups,
            target=self.view.target,
            in_flight=len(self._live),
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
        # A dropped batch may have had the same step, but never the same number.
        group_id = f"{self.view.number}:{self._uses.total()}:{job.prompt.id}"
        repeat = self._uses[job.prompt.id]
        self._begun[group_id] = self._live[group_id] = None
        job = replace(job, resume=self._known.lend(job.resume, batch=self.view.number))
        self._runner.start(job, group_id=group_id, view=self._shown, repeat=repeat)
        self._uses[job.prompt.id] += 1

    def _judge(self, cell: Cell) -> None:
        """Has Referees decide on a group, Recallers add rollouts to it and Filters measure it."""
        group = cell.group
        assert group is not None, "only complete groups are judged"
        # A Generate part may give a rollout another prompt to be trained under.
        self._known.check_handed_out({id(r.prompt): r.prompt for r in group.rollouts}.values())
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
        del self._live[group.id]
        self.view.judged(group)

    def _recall(self, group: Group) -> Group:
        for name, recaller in self._strategy.hooks(Recaller).items():
            with asking(name):
                recalled = list(recaller.recall(group, view=self._shown))
            recalled = check_recalled(recalled, group=group, known=self._known, by=name)
            self._known.lend(recalled, batch=self.view.number)
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


def check_harvest(harvest: Harvest, *, judged: bool = False) -> None:
    """Refuses a batch with nothing to learn from where the user has to correct the cause.

    Raises:
        GfcrError: no rollout could be scored, and no Evaluator that `judged` them has abstained.
        BatchCannotFill: no group was completed.
    """
    where, made = f"update {harvest.step + 1}", [r for g in harvest.groups for r in g.rollouts]
    if not (judged and any(map(not_judged, made))):
        check_scorable(made, where=where)
    if not harvest.groups:
        raise BatchCannotFill(f"{where}: no group was completed.")


def check_scorable(rollouts: Iterable[Rollout], *, where: str) -> None:
    """Checks that at least one fresh rollout has a reward, if there are any.

    Raises:
        GfcrError: no fresh rollout has one; gives the first one's error.
    """
    fresh = [r for r in rollouts if r.origin == "fresh"]
    if fresh and all(r.reward is None for r in fresh):
        raise GfcrError(
            f"{where}: none of {len(fresh)} rollouts could be scored; the first error was: "
            f"{fresh[0].error or 'the verifier gave no reward and no reason'}. Mend the verifier "
            "or the Generate part and run the same command again, with `--accept data` where a "
            "checkpoint was written by the code before."
        )
