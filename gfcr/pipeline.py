"""Pipeline: runs a Strategy on an Engine and hands each update's batch to the trainer.

It owns the order of events, the paired prompt stream, the seeds, the token ledger and the state of
every part with memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from gfcr.engine.base import Engine
from gfcr.errors import asking, restoring
from gfcr.ledger import Ledger
from gfcr.loop import batch as batches
from gfcr.loop.collector import Collector, check_harvest
from gfcr.loop.custody import Custody
from gfcr.loop.floor import Floor
from gfcr.loop.metrics import batch_metrics, part_metrics
from gfcr.loop.rounds import evaluate
from gfcr.loop.runner import Runner
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import Prompts, PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import AfterUpdate, Evaluator, Generate, Harvest, Observer, Replay, Watcher
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
        sink: Callable[[RolloutBatch], object] = lambda batch: None,
        keeps: bool = False,
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
            keeps: whether groups in flight when a batch is full go on in the next one; else they
                are cut, and a Replay part may keep what they have.
        """
        self.strategy, self.sampling = strategy, sampling
        self.stream = stream or PromptStream(train, seed=seed)
        self.ledger = Ledger()
        """Counts every token."""
        self._custody = Custody(ledger=self.ledger, heldout=heldout)
        self._floor = Floor(
            engine=engine,
            codec=codec,
            desk=Desk(task),
            seed=seed,
            ledger=self.ledger,
            heldout=self._custody.heldout,
        )
        self._view = RunView(
            self._floor,
            target=prompts,
            group_size=strategy.group_size,
            sampling=sampling,
            stream=self.stream,
            note=self._custody.hand_out,
            records=lambda folder: self._custody.admit(records(folder), run=folder),
        )
        self._runner = Runner(
            self._floor,
            generate=strategy.generate,
            view=shown(self._view),
            watchers=strategy.hooks(Watcher),
            evaluators=strategy.hooks(Evaluator),
        )
        self._sink, self._keeps = sink, keeps
        self._samples: Sequence[Sample] = ()
        """Of the last batch."""
        self._generated_before = 0 - engine.stats().generated_tokens
        """Tokens generated in the sessions before a resume."""

    @property
    def step(self) -> int:
        """Update the next batch is for."""
        return self._view.step

    @property
    def engine(self) -> Engine:
        """Generates."""
        return self._floor.engine

    @property
    def codec(self) -> Codec:
        """Text and tokens of the engine's model."""
        return self._floor.codec

    @property
    def desk(self) -> Desk:
        """Scores."""
        return self._floor.desk

    @property
    def generated(self) -> int:
        """Tokens the run has generated, by the engine's own count."""
        return self._generated_before + self.engine.stats().generated_tokens

    def tokens(self) -> dict[str, int]:
        """The token ledger: `generated` by the engine's count, every bin, and the `remainder`."""
        bins = self.ledger.bins()
        return {
            "generated": self.generated,
            **bins,
            "remainder": self.generated - sum(bins.values()),
        }

    # ------------------------------------------------------------ one batch

    def next_batch(self, *, step: int | None = None) -> RolloutBatch:
        """Makes the next update's batch, or that for an update of the caller's.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent, or nothing can be trained on.
            PartError: a part failed, or handed over what cannot be trained on.
        """
        meter = batches.Meter(self.engine, desk=self.desk)
        self._view.begin(self.step if step is None else step)
        self._floor.traffic.go_on()
        collector = Collector(
            self.strategy,
            runner=self._runner,
            view=self._view,
            custody=self._custody,
            keeps=self._keeps,
        )
        try:
            collector.collect()
            collector.map_batch()
            harvest = collector.harvest()
            check_harvest(harvest)
            self._custody.check(harvest)
            samples = batches.samples(harvest.groups)
        except BaseException:
            collector.end(keeps=False)
            self._sink(self._batch(collector.harvest()))
            raise
        batches.settle(self.ledger, harvest=harvest, samples=samples)
        self._remember(harvest)
        parts = part_metrics(self.strategy.parts)
        self._custody.check(harvest)  # once more: memories and observers had it in hand
        self._custody.forget()
        trained = sum(int(s.rollout.mask_T.sum()) for s in samples)
        cost = replace(meter.read(), trained_tokens=trained)
        metrics = batch_metrics(
            harvest,
            samples=samples,
            version=self.engine.version,
            cost=meter.metrics(cost),
            generated=cost.generated_tokens,
            tokens=self.tokens(),
            parts=parts,
        )
        batch = self._batch(harvest, samples=samples, cost=cost, metrics=metrics)
        self._sink(batch)
        self._view.begin(self.step + 1)
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
        view = shown(self._view)
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

    def _remember(self, harvest: Harvest) -> None:
        view = shown(self._view)
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
        """Loads the policy after `version` updates into the engine; what is in flight goes on."""
        self._floor.traffic.park()
        self.engine.update_weights(weights, version=version)

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
        """See `loop.rounds.evaluate`; `desk` scores, or else the run's."""
        self._floor.traffic.park()
        address, desk = "evaluation.generate", desk or self.desk
        return evaluate(
            prompts,
            floor=replace(self._floor, desk=desk, heldout=(), address=address),
            generate=generate,
            num_samples=num_samples,
            sampling=sampling,
            label=label,
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything with memory."""
        return {
            "step": self.step,
            "stream": self.stream.state_dict(),
            "ledger": self.ledger.state_dict(),
            "custody": self._custody.state_dict(),
            "generated": self.generated,
            "parts": {name: part.state_dict() for name, part in self.strategy.parts.items()},
            "in_flight": self._runner.state_dict(),
        }

    @restoring("state")
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; ForeignCheckpointError where that is not it."""
        self._view.begin(state["step"])
        self.stream.load_state_dict(state["stream"])
        self.ledger.load_state_dict(state["ledger"])
        self._custody.load_state_dict(state["custody"])
        self._generated_before = state["generated"] - self.engine.stats().generated_tokens
        for name, part in self.strategy.parts.items():
            part.load_state_dict(state["parts"][name])
        self._runner.load_state_dict(state["in_flight"])

    def close(self) -> None:
        """Stops the pools and takes what is in flight out of the engine, which is the caller's."""
        self._floor.traffic.clear()
        self.desk.close()
