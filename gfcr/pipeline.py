"""Pipeline: runs a Strategy on an Engine and hands each update's batch to the trainer.

It owns the order of events, the paired prompt stream, the seeds, the token ledger and the state of
every part with memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from gfcr.engine.base import Engine
from gfcr.errors import asking
from gfcr.ledger import IN_FLIGHT, Ledger
from gfcr.loop import batch as batches
from gfcr.loop.collector import Collector, check_harvest
from gfcr.loop.custody import Custody
from gfcr.loop.guard import check_numbers
from gfcr.loop.metrics import batch_metrics, recorded
from gfcr.loop.rounds import Loop
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import Prompts, PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import AfterUpdate, Evaluator, Harvest, Observer, Replay, View, Watcher
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Task
from gfcr.types import Bools, Cost, Group, Prompt, RolloutBatch, Sample, Sampling

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
        stream: Prompts | None = None,
        records: Callable[[str], Iterable[Group]] = lambda folder: (),
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
            stream: where prompts are drawn from; else `train` is shuffled.
            records: reads the groups that another run left in its folder.
            sink: receives each batch before any of it is used; of a batch that fails, what it had
                produced, without samples.
        """
        self.strategy, self.prompts, self.sampling, self.sink = strategy, prompts, sampling, sink
        self.loop = Loop(engine=engine, codec=codec, desk=Desk(task), seed=seed)
        self.stream = stream or PromptStream(train, seed=seed)
        self._records = records
        self.step = 0
        """Update the next batch is for."""
        self._samples: Sequence[Sample] = ()
        """Of the last batch."""
        self._custody = Custody(ledger=self.ledger, heldout=heldout)
        self._generated_before = 0 - engine.stats().generated_tokens
        """Tokens generated in the sessions before a resume."""

    @property
    def engine(self) -> Engine:
        """Generates."""
        return self.loop.engine

    @property
    def desk(self) -> Desk:
        """Scores."""
        return self.loop.desk

    @property
    def ledger(self) -> Ledger:
        """Counts every token."""
        return self.loop.ledger

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
        view = self._view()
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
        self._samples = samples
        return batch

    def masked(self, kept: Mapping[str, Bools]) -> None:
        """Takes down which tokens of the last batch a correction leaves in the loss, by rollout."""
        batches.settle_masked(self.ledger, samples=self._samples, kept=kept)

    def updated(self, metrics: Mapping[str, float]) -> None:
        """Tells parts of an update, with the trainer's metrics.

        Raises:
            PartError: a part failed.
        """
        view = shown(self._view())
        for name, part in self.strategy.hooks(AfterUpdate).items():
            with asking(name):
                part.after_update(metrics, view=view)

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
        runner = self.loop.runner(
            view,
            generate=strategy.generate,
            watchers=strategy.hooks(Watcher),
            evaluators=strategy.hooks(Evaluator),
            heldout=self._custody.heldout,
        )
        view.in_flight, view.note = lambda: runner.running, self._custody.hand_out
        view.records = lambda folder: self._custody.admit(self._records(folder), run=folder)
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

    # ------------------------------------------------------------ weights, state

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

    def _view(self) -> RunView:
        return self.loop.view(
            self.step,
            target=self.prompts,
            group_size=self.strategy.group_size,
            sampling=self.sampling,
            stream=self.stream,
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
