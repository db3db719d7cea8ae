"""The batches in the making: they are opened, advanced on one engine together, and closed."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, final

from gfcr.errors import asking
from gfcr.ledger import STALE
from gfcr.loop import batch as batches
from gfcr.loop.collector import Collector, check_harvest
from gfcr.loop.floor import Floor
from gfcr.loop.known import Known
from gfcr.loop.metrics import batch_metrics, part_metrics
from gfcr.loop.runner import Runner
from gfcr.loop.view import RunView, shown
from gfcr.stages import Evaluator, Harvest, Observer, Replay, View, Watcher
from gfcr.strategy import Strategy
from gfcr.types import Cost, RolloutBatch


@final
class Making:
    """The batches of a run that are in the making; all share one runner."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        floor: Floor,
        known: Known,
        view: Callable[[int, int], RunView],
        update: Callable[[], int],
        sink: Callable[[RolloutBatch], object],
    ) -> None:
        """Begins with no batch.

        Args:
            strategy: the parts of the run.
            floor: the engine, codec, desk and ledger that rollouts are made with.
            known: the prompts and rollouts that the run has handed out and made.
            view: makes the view of the batch for an update, given its number and the update.
            update: returns the first update that no batch was closed for.
            sink: see `Pipeline`.
        """
        self._strategy, self._floor, self._known = strategy, floor, known
        self._view, self._update, self._sink = view, update, sink
        self._runner = Runner(
            floor,
            generate=strategy.generate,
            watchers=strategy.hooks(Watcher),
            evaluators=strategy.hooks(Evaluator),
        )
        self._open: dict[int, Collector] = {}
        self._dropped: list[Harvest] = []
        """What the batches given up since the last close have produced."""
        self._meter = batches.Meter(floor.engine, desk=floor.desk)

    @property
    def opened(self) -> Mapping[int, Collector]:
        """The batches in the making, by their numbers in the order in which they were begun."""
        return MappingProxyType(self._open)

    def open(self, number: int, *, update: int) -> None:
        """Begins a batch for an update, which has another number if batches were dropped.

        Raises:
            BatchCannotFill, PartError: see `Pipeline.next_batch`.
        """
        if not self._open:
            # The time since the last close, such as the trainer's, is no cost of this batch.
            self._meter = self._meter.anew()
        with self._sinking():
            self._open[number] = self._collector(number, update=update)
            self._open[number].begin()

    def turn(self) -> None:
        """Runs the engine for one step, and advances each batch as far as the results allow.

        Raises:
            EngineError: the engine failed.
            BatchCannotFill, PartError: see `Pipeline.next_batch`.
        """
        with self._sinking():
            # A sync, an evaluation or sleep has parked requests, and leaves sending them to this.
            self._floor.traffic.go_on()
            self._runner.advance()
            self._score_first()
            # Groups of a batch that is done are cut: all that is taken below belongs to these.
            making = [c for c in self._open.values() if not c.done]
            while (cell := self._runner.take()) is not None:
                next(c for c in making if c.owns(cell)).offer(cell)
            for collector in making:
                collector.turn()
                if collector.done:
                    collector.end()

    def _score_first(self) -> None:
        # The trainer waits for the first batch, while later ones may be decoded for long.
        making = [number for number, collector in self._open.items() if not collector.done]
        if len(making) > 1 and not self._floor.traffic.decodes(making[0]):
            self._floor.desk.score(making[0])

    def drop(self, number: int) -> None:
        """Gives up a batch as too old; its groups count as rejected in the next batch."""
        collector = self._open.pop(number)
        with self._sinking():
            collector.end()
        self._known.take_back(batch=number)
        made = collector.harvest()
        self._dropped.append(replace(made, groups=tuple(g.reject(STALE) for g in made.groups)))

    def close(
        self, number: int, *, update: int, version: int, tokens: Callable[[], Mapping[str, int]]
    ) -> RolloutBatch:
        """Ends a complete batch and returns it as the trainer takes it.

        Args:
            number: its number in the order begun.
            update: the update that learns from it.
            version: the policy version that learns from it.
            tokens: returns the ledger's counts, called when all tokens are settled.

        Raises:
            BatchCannotFill, PartError: see `Pipeline.next_batch`.
        """
        collector = self._open[number]
        with self._sinking():
            collector.end()  # it may be done without a turn
            collector.map_batch()
            check_harvest(own := collector.harvest(), judged=bool(self._strategy.hooks(Evaluator)))
            harvest = self._joined(own)
            samples = batches.samples(harvest.groups)
        # Until here a failure has passed the batch to the sink, as one of those that are open.
        del self._open[number]
        first = batches.settle(self._floor.ledger, harvest=harvest)
        # `Known.keep` settles nothing that a batch in the making is lent, so this comes first.
        self._known.take_back(batch=number)
        self._remember(harvest, view=collector.view)
        # Observers and Replay have to see this batch first, or their metrics are of the one before.
        parts = part_metrics(self._strategy.parts)
        trained = sum(int(s.rollout.mask_T.sum()) for s in samples)
        meter = self._meter
        cost = replace(meter.read(), trained_tokens=trained)
        self._meter = batches.Meter(self._floor.engine, desk=self._floor.desk)
        metrics = batch_metrics(
            harvest,
            samples=samples,
            version=version,
            cost=meter.metrics(cost),
            generated=cost.generated_tokens,
            first_trained=first,
            tokens=tokens(),
            parts=parts,
        )
        made = _batch(harvest, step=update, version=version)
        made = replace(made, samples=samples, cost=cost, metrics=metrics)
        self._sink(made)
        return made

    @contextmanager
    def aside(self) -> Generator[None]:
        """Parks all requests, and leaves what is done inside out of the batches' cost."""
        self._floor.traffic.park()
        spent = self._meter.spent
        with self._floor.desk.together.aside():
            yield
        self._meter = self._meter.after(spent)

    def state_dict(self) -> dict[str, Any]:
        """Returns all batches in the making, for a checkpoint."""
        opened = [collector.state() for collector in self._open.values()]
        in_flight = self._runner.state_dict()
        held = {"opened": opened, "dropped": list(self._dropped), "in_flight": in_flight}
        return {**held, "spent": self._meter.spent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._open, self._dropped = {}, list(state["dropped"])
        views: dict[str, View] = {}
        for opened in state["opened"]:
            collector = self._collector(opened.number, update=opened.step)
            self._open[opened.number] = collector
            collector.go_on(opened)
            views |= dict.fromkeys(opened.begun, shown(collector.view))
        self._runner.load_state_dict(state["in_flight"], views=views)
        self._meter = self._meter.after(state["spent"])

    def _joined(self, harvest: Harvest) -> Harvest:
        """Returns the harvest together with those of the batches dropped before it."""
        every, self._dropped = [*self._dropped, harvest], []
        return replace(
            harvest,
            groups=tuple(g for h in every for g in h.groups),
            aborted=tuple(r for h in every for r in h.aborted),
            asides=tuple(r for h in every for r in h.asides),
        )

    def _collector(self, number: int, *, update: int) -> Collector:
        view = self._view(number, update)
        return Collector(self._strategy, runner=self._runner, view=view, known=self._known)

    @contextmanager
    def _sinking(self) -> Generator[None]:
        """Passes what was made for all open batches to the sink, if one of them fails."""
        try:
            yield
        # An interrupt counts, too: what was generated is recorded whatever ends the run.
        except BaseException:
            opened, self._open = self._open, {}
            # The update that one was begun for may have been given to another, and is recorded.
            for update, collector in enumerate(opened.values(), start=self._update()):
                collector.end()
                version = self._floor.engine.version
                self._sink(_batch(collector.harvest(), step=update, version=version))
            raise

    def _remember(self, harvest: Harvest, *, view: RunView) -> None:
        seen = shown(view)
        for name, observer in self._strategy.hooks(Observer).items():
            with asking(name):
                observer.observe(harvest, view=seen)
        kept = set[str]()
        for name, replay in self._strategy.hooks(Replay).items():
            with asking(name):
                replay.store(harvest, view=seen)
                kept.update(replay.holds())
        self._known.keep(harvest, kept=kept)


def _batch(harvest: Harvest, *, step: int, version: int) -> RolloutBatch:
    """Returns a batch as it is recorded where nothing is learned from it."""
    return RolloutBatch(
        step=step,
        version=version,
        samples=(),
        groups=harvest.groups,
        aborted=harvest.aborted,
        asides=harvest.asides,
        cost=Cost(),
        metrics={},
    )
