"""Pipeline: runs a Strategy on an Engine and hands each update's batch to the trainer.

It owns the order of events, the paired prompt stream, the seeds, the token ledger and the state of
every part with memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from gfcr.engine.base import Engine, Sleeper
from gfcr.errors import asking, restoring
from gfcr.ledger import Ledger
from gfcr.loop import batch as batches
from gfcr.loop.floor import Floor
from gfcr.loop.known import Known
from gfcr.loop.making import Making
from gfcr.loop.rounds import evaluate
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import Prompts, PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import AfterUpdate, Follower, Generate
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Task
from gfcr.types import Bools, Group, Prompt, RolloutBatch, Sampling

if TYPE_CHECKING:
    from gfcr.engine.base import Weights


@final
class Pipeline:
    """Runs Generate, Filter, Control and Replay parts on one engine."""

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
    ) -> None:
        """Makes a pipeline at its first update.

        Args:
            strategy: the parts to run.
            engine: generates; the caller has to close it.
            task: verifies completions.
            train: prompts to draw from; never held-out ones.
            codec: text and tokens of the model in the engine.
            prompts: the number of accepted groups that an update trains on.
            sampling: the sampling of training rollouts.
            seed: the seed of the experiment, which fixes every draw.
            heldout: prompts that are refused for training, whoever brings them.
            stream: where prompts are drawn from; else `train` is shuffled.
            records: reads the groups that another run left in its folder.
            sink: receives each batch before any of it is used; of a batch that fails, what it had
                produced, without samples.
        """
        self.strategy, self.sampling = strategy, sampling
        self.stream = stream or PromptStream(train, seed=seed)
        self.ledger = Ledger()
        """The token ledger, which counts every token."""
        self.known = Known(ledger=self.ledger, heldout=heldout)
        """The prompts that were handed out, and the rollouts that may come back."""
        self._floor = Floor(
            engine=engine,
            codec=codec,
            desk=Desk(task),
            seed=seed,
            ledger=self.ledger,
            heldout=self.known.heldout,
            learns_any_heat=strategy.corrected,
        )
        self._group = strategy.group_size, prompts
        self._records = records
        self.making = Making(
            strategy,
            floor=self._floor,
            known=self.known,
            view=self._view,
            update=lambda: self.step,
            sink=sink,
        )
        """The batches in the making."""
        self.step: int = 0
        """The update that the next batch is for."""
        # The engine may have generated before: those tokens are not of this run.
        self._generated_before = 0 - engine.stats().generated_tokens
        """Tokens generated in the sessions before a resume."""

    @property
    def engine(self) -> Engine:
        """The engine that generates."""
        return self._floor.engine

    @property
    def codec(self) -> Codec:
        """The codec between text and tokens of the engine's model."""
        return self._floor.codec

    @property
    def desk(self) -> Desk:
        """The desk that verifies completions and calls tools."""
        return self._floor.desk

    @property
    def generated(self) -> int:
        """The number of tokens that the run has generated, by the engine's own count."""
        return self._generated_before + self.engine.stats().generated_tokens

    def tokens(self) -> dict[str, int]:
        """Returns the ledger: `generated` by the engine's count, every bin, and the `remainder`."""
        bins = self.ledger.bins()
        return {
            "generated": self.generated,
            **bins,
            "remainder": self.generated - sum(bins.values()),
        }

    # ------------------------------------------------------------ batches

    def next_batch(self, *, step: int | None = None) -> RolloutBatch:
        """Makes a whole batch, for the next update or the update `step`.

        An engine that sleeps does so then, until `sync`.

        Raises:
            BatchCannotFill: a Planner's bound on refilling is spent, or nothing can be trained on.
            PartError: a part failed, or handed over what cannot be trained on.
        """
        step = self.step if step is None else step
        self.making.open(step, update=step)
        while not self.making.opened[step].done:
            self.making.turn()
        batch = self.close_batch(step)
        if isinstance(self.engine, Sleeper):
            self._floor.traffic.park()
            self.engine.sleep()
        return batch

    def close_batch(
        self, number: int, *, update: int | None = None, version: int | None = None
    ) -> RolloutBatch:
        """Ends a complete batch and returns it as the trainer takes it.

        Args:
            number: its number in the order begun.
            update: the one that learns from it, if that has another number.
            version: the policy version that learns from it, if it is not the engine's.

        Raises:
            BatchCannotFill, PartError: as `next_batch`.
        """
        update = number if update is None else update
        version = self.engine.version if version is None else version
        batch = self.making.close(number, update=update, version=version, tokens=self.tokens)
        self.step, self.known.learning[update] = update + 1, batch.samples
        return batch

    def hold(self, batch: RolloutBatch) -> None:
        """Keeps the samples of a batch that a checkpoint holds and no update has learned from."""
        self.known.learning[batch.step] = batch.samples

    def masked(self, kept: Mapping[str, Bools], *, update: int | None = None) -> None:
        """Records which tokens a correction leaves in the loss, by rollout id.

        Args:
            kept: a mask over each rollout's tokens, by rollout id.
            update: the update whose batch they are of; None is the last one.
        """
        samples = self.known.learning[self.step - 1 if update is None else update]
        batches.settle_masked(self.ledger, samples=samples, kept=kept)

    def updated(self, metrics: Mapping[str, float], *, update: int | None = None) -> None:
        """Tells parts that the policy was updated, with the trainer's metrics.

        Args:
            metrics: the trainer's metrics, by name.
            update: the update whose batch it learned from; None is the last one.

        Raises:
            PartError: a part failed.
        """
        update = self.step - 1 if update is None else update
        self.known.learning = {u: s for u, s in self.known.learning.items() if u > update}
        view = shown(self._view(update + 1, update + 1))
        for name, part in self.strategy.hooks(AfterUpdate).items():
            with asking(name):
                part.after_update(metrics, view=view)

    # ------------------------------------------------------------ weights, state

    def sync(self, weights: "Weights", *, version: int) -> None:
        """Loads the policy after `version` updates into the engine; requests in flight continue.

        Raises:
            PartError: a part that follows the policy failed.
        """
        self._floor.traffic.park()
        followers = self.strategy.hooks(Follower)
        named = dict(weights) if followers else {}  # merged adapters can be read once
        self.engine.update_weights(named.items() or weights, version=version)
        for name, part in followers.items():
            with asking(name):
                part.follow(named, version=version)

    def evaluate(
        self,
        prompts: Sequence[Prompt],
        *,
        generate: Generate,
        num_samples: int,
        sampling: Sampling,
        label: str,
    ) -> list[Group]:
        """Rolls out held-out prompts beside training, see `loop.rounds.evaluate`."""
        address = "evaluation.generate"
        with self.making.aside():
            return evaluate(
                prompts,
                floor=replace(self._floor, heldout=(), learns_any_heat=True, address=address),
                generate=generate,
                num_samples=num_samples,
                sampling=sampling,
                label=label,
            )

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint, with that of parts and of batches in the making."""
        return {
            "step": self.step,
            "stream": self.stream.state_dict(),
            "ledger": self.ledger.state_dict(),
            "known": self.known.state_dict(),
            "generated": self.generated,
            "parts": {name: part.state_dict() for name, part in self.strategy.parts.items()},
            "making": self.making.state_dict(),
        }

    @restoring("state")
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; ForeignCheckpointError where that is not it."""
        self.step = state["step"]
        self.stream.load_state_dict(state["stream"])
        self.ledger.load_state_dict(state["ledger"])
        self.known.load_state_dict(state["known"])
        self._generated_before = state["generated"] - self.engine.stats().generated_tokens
        for name, part in self.strategy.parts.items():
            part.load_state_dict(state["parts"][name])
        self.making.load_state_dict(state["making"])

    def _view(self, number: int, step: int) -> RunView:
        group_size, prompts = self._group
        return RunView(
            self._floor,
            target=prompts,
            group_size=group_size,
            sampling=self.sampling,
            stream=self.stream,
            step=step,
            number=number,
            note=self.known.hand_out,
            records=lambda folder: self.known.admit(self._records(folder), run=folder),
        )

    def close(self) -> None:
        """Stops the pools and takes what is in flight out of the engine, which is the caller's."""
        self._floor.traffic.clear()
        self.desk.close()
