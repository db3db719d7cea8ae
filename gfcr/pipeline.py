"""Pipeline: runs a Strategy on an Engine and hands each update's batch to the trainer.

It owns the order of events, the paired prompt stream, the seeds, the token ledger and the state of
every part with memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from gfcr import batch as batches
from gfcr.collector import Collector, check_harvest, check_scorable
from gfcr.custody import Custody
from gfcr.engine.base import Engine
from gfcr.errors import asking
from gfcr.faults import Told
from gfcr.guard import check_numbers
from gfcr.ledger import EVALUATION, IN_FLIGHT, Ledger
from gfcr.metrics import batch_metrics, recorded
from gfcr.runner import Runner
from gfcr.scoring import Desk
from gfcr.stages import Evaluator, Generate, Harvest, Observer, Replay, View, Watcher
from gfcr.strategy import Strategy
from gfcr.stream import Prompts, PromptStream
from gfcr.tasks.base import Codec, Task
from gfcr.types import Cost, Group, Prompt, RolloutBatch, Sample, Sampling
from gfcr.view import RunView, shown

if TYPE_CHECKING:
    from gfcr.engine.base import Weights


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
        heldout: Sequence[Prompt] = (),
        sink: Callable[[RolloutBatch], None] = lambda batch: None,
    ) -> None:
        """Makes a pipeline.

        Args:
            strategy: the parts.
            engine: generates; stays the caller's to close.
            task: scores.
            train: prompts the paired stream shuffles; never held-out ones.
            codec: text and tokens of the model in the engine.
            prompts: accepted groups an update trains on.
            sampling: of training rollouts.
            seed: of the experiment: with it every draw is fixed.
            heldout: prompts that are refused for training, whoever brings them.
            sink: receives each batch before any of it is used; of a batch that fails, what it had
                produced, without samples.
        """
        self.strategy, self.engine, self.codec = strategy, engine, codec
        self.prompts, self.sampling, self.seed, self.sink = prompts, sampling, seed, sink
        self.ledger = Ledger()
        self.stream: Prompts = PromptStream(train, seed=seed)
        self.desk = Desk(task)
        self.step = 0
        """Update the next batch is for."""
        self._custody = Custody(ledger=self.ledger, heldout=heldout)
        self._generated_before = 0 - engine.stats().generated_tokens
        """Tokens generated in the sessions before a resume."""
        self._told = Told()

    @property
    def generated(self) -> int:
        """Tokens the run has generated, by the engine's own count."""
        return self._generated_before + self.engine.stats().generated_tokens

    def tokens(self) -> dict[str, int]:
        """The token ledger: `generated` by the engine's count, every bin, and the `remainder`."""
        bins = {n: t for n, t in self.ledger.bins().items() if n != IN_FLIGHT}
        return {
            "generated": self.generated,
            **bins,
            "remainder": self.generated - sum(bins.values()),
        }

    # ------------------------------------------------------------ one batch

    def next_batch(self) -> RolloutBatch:
        """Makes the next update's batch.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent, or nothing can be trained on.
            PartError: a part failed, or handed over what cannot be trained on.
        """
        meter = batches.Meter(self.engine, desk=self.desk)
        view = self._view(self.step)
        collector = self._collector(view)
        try:
            collector.collect()
            collector.map_batch()
            harvest = collector.harvest()
            check_harvest(harvest)
            self._custody.check(harvest)
            samples = batches.samples(harvest.groups)
        except BaseException:
            self.sink(self._batch(collector.harvest()))
            raise
        batches.settle(self.ledger, harvest=harvest, samples=samples)
        self._remember(harvest, view=shown(view))
        parts = self._part_metrics()
        self._custody.check(harvest)  # once more: memories and observers had it in hand
        self._custody.forget()
        trained = sum(int(s.rollout.mask_T.sum()) for s in samples)
        cost = replace(meter.read(), trained_tokens=trained)
        metrics = {
            **batch_metrics(harvest, samples=samples, version=self.engine.version),
            **meter.metrics(cost),
            **self._ledger_metrics(),
            **parts,
        }
        metrics = recorded(metrics)
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
            asides=harvest.asides,
            cost=cost or Cost(),
            metrics=metrics or {},
        )

    def _collector(self, view: RunView) -> Collector:
        strategy = self.strategy
        runner = self._runner(
            view,
            generate=strategy.generate,
            step=self.step,
            watchers=strategy.hooks(Watcher),
            evaluators=strategy.hooks(Evaluator),
            heldout=self._custody.heldout,
        )
        view.in_flight, view.note = lambda: runner.running, self._custody.hand_out
        return Collector(self.strategy, runner=runner, view=view, custody=self._custody)

    def _remember(self, harvest: Harvest, *, view: View) -> None:
        for name, observer in self.strategy.hooks(Observer).items():
            with asking(name):
                observer.observe(harvest, view=view)
        kept = set[str]()
        for name, replay in self.strategy.hooks(Replay).items():
            with asking(name):
                replay.store(harvest, view=view)
                kept.update(replay.holds())
        self._custody.keep(harvest, kept=kept)

    # ------------------------------------------------------------ evaluation, weights, state

    def evaluate(
        self,
        prompts: Sequence[Prompt],
        *,
        generate: Generate,
        num_samples: int,
        sampling: Sampling,
        label: str,
        desk: Desk | None = None,
    ) -> list[Group]:
        """Rolls out held-out prompts under the current policy; tokens count as evaluation.

        The draws depend on (seed, prompt, sample) alone: the same in every arm and at every update.
        What `generate` sees holds nothing of how the arm trains. `desk` scores, or else the run's.

        Raises:
            GfcrError: no answer could be scored.
        """
        own = {"sampling": sampling, "group_size": num_samples, "target": len(prompts)}
        view = replace(self._view(0), version=0, stream=PromptStream(prompts, seed=None), **own)
        runner = self._runner(view, generate=generate, step=-1, desk=desk)
        for index, prompt in enumerate(prompts):
            # No drafts: what is measured must not depend on how rollouts are made.
            job = replace(view.job(prompt, num_samples=num_samples), draft_budget=0)
            runner.start(job, group_id=f"{label}:{index}:{prompt.id}")
        groups: list[Group] = []
        while runner.num_groups:
            groups += runner.advance()
        for group in groups:
            for rollout in group.rollouts:
                self.ledger.settle(rollout.spans, bin=EVALUATION)
        for rollout in runner.take_asides():
            self.ledger.settle(rollout.spans, bin=EVALUATION)
        check_scorable((r for g in groups for r in g.rollouts), where=f"evaluation {label}")
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
            "custody": self._custody.state_dict(),
            "generated": self.generated,
            "parts": {name: part.state_dict() for name, part in self.strategy.parts.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.step = state["step"]
        self.stream.load_state_dict(state["stream"])
        self.ledger.load_state_dict(state["ledger"])
        self._custody.load_state_dict(state["custody"])
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

    def _runner(
        self,
        view: RunView,
        *,
        generate: Generate,
        step: int,
        watchers: Mapping[str, Watcher] = MappingProxyType({}),
        evaluators: Mapping[str, Evaluator] = MappingProxyType({}),
        heldout: Collection[tuple[int, ...]] = (),
        desk: Desk | None = None,
    ) -> Runner:
        return Runner(
            engine=self.engine,
            codec=self.codec,
            desk=desk or self.desk,
            ledger=self.ledger,
            generate=generate,
            watchers=watchers,
            evaluators=evaluators,
            heldout=heldout,
            view=shown(view),
            seed=self.seed,
            step=step,
            address="generate" if step >= 0 else "evaluation.generate",
            told=self._told,
        )

    def _ledger_metrics(self) -> dict[str, float]:
        return {f"tokens/{name}": float(num) for name, num in self.tokens().items()}

    def _part_metrics(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for address, part in self.strategy.parts.items():
            with asking(address):
                metrics = dict(part.metrics())
            check_numbers(metrics, by=address, what="its metrics")
            found |= {f"{address}/{key}": value for key, value in metrics.items()}
        return found
