"""Pipeline: runs a Strategy on an Engine and hands each update's batch to the trainer.

It owns the order of events, the paired prompt stream, the seeds, the token ledger and the state of
every part with memory.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, final

from gfcr import batch as batches
from gfcr.engine.base import Engine
from gfcr.errors import BatchCannotFill, GfcrError
from gfcr.ledger import ABORTED, BUFFERED, EVALUATION, IN_FLIGHT, Ledger
from gfcr.metrics import batch_metrics
from gfcr.runner import Runner
from gfcr.scoring import Desk
from gfcr.stages import (
    BatchMap,
    Generate,
    Harvest,
    Job,
    Observer,
    Plan,
    Planner,
    Recaller,
    Referee,
    Retire,
    SampleMore,
    Watcher,
)
from gfcr.strategy import Strategy
from gfcr.stream import PromptStream
from gfcr.tasks.base import Codec, Task
from gfcr.types import Cost, Group, Prompt, Rollout, RolloutBatch, Sample, Sampling
from gfcr.view import RunView

if TYPE_CHECKING:
    from gfcr.engine.base import Weights

H = TypeVar("H")


@dataclass(kw_only=True)
class _Round:
    """The batch in the making."""

    runner: Runner
    view: RunView
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    order: dict[str, int] = field(default_factory=dict[str, int])
    spare: list[Rollout] = field(default_factory=list[Rollout])
    """Rollouts of groups that became complete in the very step that filled the batch."""
    aborted: list[Rollout] = field(default_factory=list[Rollout])
    uses: Counter[str] = field(default_factory=Counter[str])
    """How often each prompt was begun: a repeat must not draw the same rollouts again."""


@final
class Pipeline:
    """Generate, Filter, Control, Replay on one engine."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        engine: Engine,
        task: Task,
        train: Sequence[Prompt],
        codec: Codec,
        prompts: int,
        sampling: Sampling,
        seed: int,
        sink: Callable[[RolloutBatch], None] = lambda batch: None,
    ) -> None:
        """Makes a pipeline.

        Args:
            prompts: accepted groups an update trains on.
            sink: receives each batch before any of it is used; of a batch that fails, what it had
                produced, without samples.
        """
        self.strategy, self.engine, self.codec = strategy, engine, codec
        self.prompts, self.sampling, self.seed, self.sink = prompts, sampling, seed, sink
        self.ledger = Ledger()
        self.stream = PromptStream(train, seed=seed)
        self.desk = Desk(task)
        self.step = 0
        """Update the next batch is for."""
        self._held: dict[str, Rollout] = {}
        """Aborted rollouts a Replay part keeps: their tokens are buffered."""
        self._generated_before = 0 - engine.stats().generated_tokens
        """Tokens generated in the sessions before a resume."""

    @property
    def generated(self) -> int:
        """Tokens the run has generated, by the engine's own count."""
        return self._generated_before + self.engine.stats().generated_tokens

    def tokens(self) -> dict[str, int]:
        """The token ledger: `generated` by the engine's count, every bin, and the `remainder`."""
        bins = {n: t for n, t in self.ledger.bins().items() if n != IN_FLIGHT}
        return {"generated": self.generated, **bins, "remainder": self.generated - sum(bins.values())}

    def hooks(self, kind: type[H]) -> dict[str, H]:
        """The strategy's parts that answer an event, by address, in order."""
        return {name: p for name, p in self.strategy.parts.items() if isinstance(p, kind)}

    # ------------------------------------------------------------ one batch

    def next_batch(self) -> RolloutBatch:
        """Makes the next update's batch.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent, or nothing can be trained on.
        """
        meter = batches.Meter(self.engine, desk=self.desk)
        round_ = self._open_round()
        try:
            self._collect(round_)
            round_.view.groups = self._map_batch(round_.view)
            harvest = self._harvest(round_)
            self._check_scorable(harvest)
            samples = batches.samples(harvest.groups)
        except BaseException:
            self.sink(self._batch(self._harvest(round_)))
            raise
        batches.settle(self.ledger, harvest=harvest, samples=samples)
        self._remember(harvest, view=round_.view)
        trained = sum(int(s.rollout.mask_T.sum()) for s in samples)
        cost = replace(meter.read(), trained_tokens=trained)
        metrics = {
            **batch_metrics(harvest, samples=samples, version=self.engine.version),
            **meter.metrics(cost),
            **self._ledger_metrics(),
            **self._part_metrics(),
        }
        batch = self._batch(harvest, samples=samples, cost=cost, metrics=metrics)
        self.sink(batch)
        self.step += 1
        return batch

    def _batch(
        self,
        harvest: Harvest,
        *,
        samples: Sequence[Sample] = (),
        cost: Cost | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> RolloutBatch:
        return RolloutBatch(
            step=self.step,
            version=self.engine.version,
            samples=tuple(samples),
            groups=harvest.groups,
            aborted=harvest.aborted,
            cost=cost or Cost(),
            metrics=metrics or {},
        )

    def _open_round(self) -> _Round:
        view = self._view(self.step)
        runner = self._runner(view, generate=self.strategy.generate, watch=True, step=self.step)
        view.in_flight = lambda: runner.running
        return _Round(runner=runner, view=view)

    def _collect(self, round_: _Round) -> None:
        view = round_.view
        plan = self._plan(view, num_groups=self.prompts)
        view.target = plan.target
        while plan.jobs and view.accepted < view.target:
            for job in plan.jobs:
                self._start(round_, job)
            while round_.runner.busy and view.accepted < view.target:
                for group in round_.runner.advance():
                    if view.accepted < view.target:
                        self._judge(round_, group)
                    else:
                        round_.spare += group.rollouts
            view.round += 1
            if view.accepted < view.target:
                plan = self._plan(view, num_groups=0)
        round_.aborted = self._abort(round_)

    def _plan(self, view: RunView, *, num_groups: int) -> Plan:
        plan = Plan(num_groups=num_groups, target=view.target)
        planners = self.hooks(Planner).values()
        for planner in sorted(planners, key=lambda p: not p.begun_first):
            plan = planner.plan(plan, view=view)
        return view.fill(plan)

    def _start(self, round_: _Round, job: Job) -> None:
        index = len(round_.order)
        group_id = f"{self.step}:{index}:{job.prompt.id}"
        round_.jobs[group_id], round_.order[group_id] = job, index
        round_.runner.start(job, group_id=group_id, repeat=round_.uses[job.prompt.id])
        round_.uses[job.prompt.id] += 1

    def _judge(self, round_: _Round, group: Group) -> None:
        """Control decides, Replay recalls, Filter measures."""
        view = round_.view
        for referee in self.hooks(Referee).values():
            action = referee.decide(group, view=view)
            if isinstance(action, SampleMore):
                job = round_.jobs[group.id]
                round_.runner.more(group, num_samples=action.num_samples, job=job)
                return
            if isinstance(action, Retire):
                group = group.reject(action.reason)
                break
        if group.rejected is None:
            group = self._filter(self._recall(group, view=view), view=view)
        view.groups.append(group)
        view.accepted += group.rejected is None

    def _recall(self, group: Group, *, view: RunView) -> Group:
        for recaller in self.hooks(Recaller).values():
            group = batches.join(group, rollouts=recaller.recall(group, view=view))
        return group

    def _filter(self, group: Group, *, view: RunView) -> Group:
        for filter_ in self.strategy.filters.values():
            if not group.kept_N.any():
                break
            group = filter_.apply(group, view=view)
        if group.rejected is None and not group.kept_N.any():
            reasons = [s.rejected for s in group.signals if s.rejected]
            group = group.reject(reasons[0] if reasons else "empty")
        return group

    def _map_batch(self, view: RunView) -> list[Group]:
        accepted = {g.id: g for g in view.groups if g.rejected is None}
        for map_ in self.hooks(BatchMap).values():
            mapped = map_.map_batch(list(accepted.values()), view=view)
            accepted = dict(zip(accepted, mapped, strict=True))
        return [accepted.get(g.id, g) for g in view.groups]

    def _harvest(self, round_: _Round) -> Harvest:
        begun = sorted(round_.view.groups, key=lambda g: round_.order[g.id])
        aborted = round_.aborted or self._abort(round_)
        return Harvest(step=self.step, groups=tuple(begun), aborted=tuple(aborted))

    def _abort(self, round_: _Round) -> list[Rollout]:
        runner = round_.runner
        return [*runner.cut, *round_.spare, *runner.abort()]

    def _check_scorable(self, harvest: Harvest) -> None:
        rollouts = [r for g in harvest.groups for r in g.rollouts if r.origin == "fresh"]
        errors = [r.error for r in rollouts if r.reward is None]
        if rollouts and len(errors) == len(rollouts):
            raise GfcrError(
                f"update {self.step}: none of {len(rollouts)} rollouts could be scored; the first "
                f"error was: {errors[0]}. The rollouts are saved; mend the verifier or the "
                "Generate part and run the same command again."
            )
        if not harvest.groups:
            raise BatchCannotFill(f"update {self.step}: no group was completed.")

    def _remember(self, harvest: Harvest, *, view: RunView) -> None:
        for observer in self.hooks(Observer).values():
            observer.observe(harvest, view=view)
        if self.strategy.replay is not None:
            self.strategy.replay.store(harvest, view=view)
        self._settle_aborted(harvest)

    def _settle_aborted(self, harvest: Harvest) -> None:
        """What Replay holds is buffered; what it held and dropped since is aborted after all."""
        replay = self.strategy.replay
        kept = set(replay.holds()) if replay is not None else set[str]()
        for rollout in [*self._held.values(), *harvest.aborted]:
            self.ledger.settle(rollout.spans, bin=BUFFERED if rollout.id in kept else ABORTED)
        candidates = [*self._held.values(), *harvest.aborted]
        self._held = {r.id: r for r in candidates if r.id in kept}

    # ------------------------------------------------------------ evaluation, weights, state

    def evaluate(
        self, prompts: Sequence[Prompt], *, generate: Generate, num_samples: int, label: str
    ) -> list[Group]:
        """Rolls out held-out prompts under the current policy; tokens count as evaluation.

        The draws depend on (seed, prompt, sample) alone: the same in every arm and at every update.
        """
        view = self._view(0)
        runner = self._runner(view, generate=generate, watch=False, step=-1)
        for index, prompt in enumerate(prompts):
            job = view.job(prompt, num_samples=num_samples)
            runner.start(job, group_id=f"{label}:{index}:{prompt.id}")
        groups: list[Group] = []
        while runner.busy:
            groups += runner.advance()
        for group in groups:
            for rollout in group.rollouts:
                self.ledger.settle(rollout.spans, bin=EVALUATION)
        order = {p.id: i for i, p in enumerate(prompts)}
        return sorted(groups, key=lambda g: order[g.prompt.id])

    def sync(self, weights: "Weights", *, version: int) -> None:
        """Loads the policy after `version` updates into the engine."""
        self.engine.update_weights(weights, version=version)

    def state_dict(self) -> dict[str, Any]:
        """Everything with memory."""
        return {
            "step": self.step,
            "stream": self.stream.state_dict(),
            "ledger": self.ledger.state_dict(),
            "held": dict(self._held),
            "generated": self.generated,
            "parts": {name: part.state_dict() for name, part in self.strategy.parts.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.step = state["step"]
        self.stream.load_state_dict(state["stream"])
        self.ledger.load_state_dict(state["ledger"])
        self._held = dict(state["held"])
        self._generated_before = state["generated"] - self.engine.stats().generated_tokens
        for name, part in self.strategy.parts.items():
            part.load_state_dict(state["parts"][name])

    def close(self) -> None:
        """Stops the pools (the engine belongs to the caller)."""
        self.desk.close()

    # ------------------------------------------------------------ small things

    def _view(self, step: int) -> RunView:
        return RunView(
            step=step,
            version=self.engine.version,
            target=self.prompts,
            group_size=self.strategy.group_size,
            sampling=self.sampling,
            seed=self.seed,
            stream=self.stream,
            engine=self.engine,
            codec=self.codec,
        )

    def _runner(self, view: RunView, *, generate: Generate, watch: bool, step: int) -> Runner:
        return Runner(
            engine=self.engine,
            codec=self.codec,
            desk=self.desk,
            ledger=self.ledger,
            generate=generate,
            watchers=self.hooks(Watcher) if watch else {},
            view=view,
            seed=self.seed,
            step=step,
        )

    def _ledger_metrics(self) -> dict[str, float]:
        return {f"tokens/{name}": float(num) for name, num in self.tokens().items()}

    def _part_metrics(self) -> dict[str, float]:
        return {
            f"{address}/{key}": value
            for address, part in self.strategy.parts.items()
            for key, value in part.metrics().items()
        }
