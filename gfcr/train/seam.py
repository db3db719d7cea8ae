"""The seam between rollouts and a TRL trainer: one hook feeds it, one callback follows it.

`SeamMixin._prepare_inputs` replaces TRL's generation; everything after it (loss, backward,
optimizer, schedule, checkpoint) is TRL's and transformers' own code. Imports nothing of trl.
"""

import time
from collections import deque
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PrinterCallback, TrainerCallback

from gfcr import seeds
from gfcr.errors import ConfigError
from gfcr.process import lease
from gfcr.process.phase import NOW
from gfcr.train import checkpoint
from gfcr.train.adapters import policy_weights
from gfcr.train.base import Steps, TrainJob
from gfcr.train.collate import loss_tokens, trainable
from gfcr.train.corrected import corrected
from gfcr.train.figures import TERMS, figures, logged_terms, terms
from gfcr.train.health import Pass, check_logged, check_update, check_weights
from gfcr.train.loss_inputs import Micro, Step, steps_of
from gfcr.train.ranks import ALONE, Ranks, whole
from gfcr.train.shares import Share, pairs, shares
from gfcr.types import RolloutBatch


class SeamMixin:
    """Overrides a TRL trainer's inputs and loss; goes before it in a class's bases."""

    feed: "Feed"
    _metrics: Mapping[str, MutableMapping[str, list[float]]]

    def _prepare_inputs(self, generation_batch: object) -> dict[str, Any]:
        """Returns the next micro-batch; the dataset row TRL passes is a placeholder."""
        lease.look()
        return self.feed.next_inputs(self)

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes TRL's loss and passes it through the feed."""
        trl: Any = super()
        if not model.training:
            return trl.compute_loss(model, inputs, *args, **kwargs)
        loss = trl.compute_loss(model, inputs, *args, **self.feed.counted(kwargs))
        return self.feed.computed(loss, logged=self._metrics["train"])


@final
class Feed(TrainerCallback):
    """Pulls batches from the source at the start of each update and reports back at its end.

    The order of an update N+1: `source.sync(version=N)`, `source.next_batch()`, forward and
    backward passes, optimizer step, `source.updated(step=N+1)`, checkpoint. Where an update has
    several optimizer steps, which transformers counts, passes and steps take turns.
    """

    def __init__(
        self,
        job: TrainJob,
        *,
        steps: Steps,
        save_every: int | None,
        keep_checkpoints: int,
        ranks: Ranks = ALONE,
    ) -> None:
        """Makes a feed.

        Args:
            job: the source and what to do with it.
            steps: passes and optimizer steps of an update.
            save_every: updates between checkpoints; None leaves them, and their names, to the
                trainer.
            keep_checkpoints: number of newest checkpoints that are kept.
            ranks: the processes that train; all but rank 0 take the shares that it deals.
        """
        self._job = job
        self._steps, self._ranks = steps, ranks
        self._save_every, self._keep = save_every, keep_checkpoints
        self._ahead: deque[Step] = deque()
        """Optimizer steps of the update that have not begun."""
        self._queue: deque[Micro] = deque()
        """Passes of the current optimizer step."""
        self._now: Micro | None = None
        self._passes: list[Pass] = []
        self._tokens, self._taken = 0, 1.0
        """Loss tokens of the step, and the share of the update's steps that have samples."""
        self._skip = self._fresh = self._told = False
        """Whether the step lacks samples, no step before had any, and the source was told."""
        self._saved: int | None = None
        self._synced: int | None = None
        self._sums = torch.zeros(TERMS, dtype=torch.float64)
        self._timing, self._weighed = dict[str, float](), dict[str, float]()
        self._ready_at = self._rate = 0.0

    def run(self, trainer: Any, *, resume_from: Path | None) -> None:
        """Trains to the end, and syncs the final policy to the engine."""
        trainer.remove_callback(PrinterCallback)
        if resume_from:
            self._saved = checkpoint.step_of(resume_from)
        with self._ranks.losses_told():
            with self.feeding(trainer):
                trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
            if self._ranks.leads:
                self.sync(trainer.model, version=self._updates(trainer.state))
                self._ranks.tell("trained")
            else:
                self._ranks.attend(trainer)

    @contextmanager
    def feeding(self, trainer: Any) -> Generator[None]:
        """Makes the trainer learn from the source while the context is open."""
        trainer.feed = self
        trainer.add_callback(self)
        watch = trainer.model.register_forward_hook(self._observe)
        try:
            yield
        finally:
            watch.remove()
            trainer.remove_callback(self)

    def sync(self, model: nn.Module, *, version: int) -> None:
        """Syncs the policy to the engine, unless the engine has this version."""
        if version == self._synced:
            return
        started = time.perf_counter()
        weights = whole(model, ranks=self._ranks)
        if self._synced is None:  # others were checked after their optimizer step
            check_weights(weights, update=version)
        self._job.source.sync(policy_weights(model, held=weights), version=version)
        self._synced = version
        self._timing["sync_s"] = time.perf_counter() - started

    def next_inputs(self, trainer: Any) -> dict[str, Any]:
        """Returns inputs of the next forward pass, beginning an update after the last one's end."""
        if not self._queue:
            self._fresh = not self._ahead or (self._fresh and self._skip)
            if not self._ahead:
                self._begin_update(trainer)
            step = self._ahead.popleft()
            self._skip, self._passes, self._tokens = step.empty, [], step.tokens
            self._queue.extend(step.passes)
        self._now = self._queue.popleft()
        NOW.advance()
        return self._now.inputs

    def counted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns arguments for TRL's loss; `sft` needs the step's tokens, not a placeholder's."""
        if self._job.loss.estimator != "sft":
            return dict(given)
        # Without a count transformers divides by the number of passes itself.
        passes = self._steps.micro_batches if given.get("num_items_in_batch") is None else 1
        return {**given, "num_items_in_batch": torch.tensor(self._tokens / passes)}

    def computed(self, loss: Tensor, *, logged: MutableMapping[str, list[float]]) -> Tensor:
        """Scales a pass's loss and keeps it for the check before the step, and what was logged."""
        assert self._now is not None, "no pass has begun"
        _, _, samples, scale, filling = self._now
        if (scale, filling) != (1.0, 0.0):
            loss = loss * scale - filling
        self._passes.append(Pass(loss=loss.detach(), samples=samples))
        self._sums += logged_terms(logged, tokens=loss_tokens(samples)).to(self._sums.device)
        return loss

    def _begin_update(self, trainer: Any) -> None:
        ranks = self._ranks
        share = ranks.deal(self._shares(trainer)) if ranks.leads else ranks.attend(trainer)
        if share.stop:
            # transformers looks at it after every micro-batch, and so before the optimizer's step.
            trainer.control.should_training_stop = True
        self._sums = torch.zeros(TERMS, dtype=torch.float64, device=trainer.accelerator.device)
        made = steps_of(trainer, share, loss=self._job.loss, steps=self._steps, size=ranks.size)
        self._taken, self._told = sum(not step.empty for step in made) / len(made), False
        self._ahead.extend(made)
        NOW.enter("training", of=self._steps.number * self._steps.micro_batches)

    def _shares(self, trainer: Any) -> list[Share]:
        """Returns the samples that each process trains on next."""
        batch, ranks, job, steps = self._fetch(trainer), self._ranks, self._job, self._steps
        samples, version = trainable(batch.samples) if batch else [], self._updates(trainer.state)
        self._weighed.clear()
        if samples and (by := job.correction):
            asked = {"count": steps.micro_batches * steps.mini_batches, "version": version}
            samples = corrected(trainer, samples, by=by, ranks=ranks, **asked)
            made = {s.rollout.id: (s.weight_T, s.rollout.mask_T) for s in samples}
            job.record(made=made, update=version)
            self._weighed = {f"correction/{key}": value for key, value in by.metrics().items()}
            job.source.masked({name: mask_T for name, (_, mask_T) in made.items()})
            samples = trainable(samples)
        paired, draw = job.loss.estimator == "dpo", seeds.rng(job.seed, "mini_batches", version)
        given = pairs(samples) if paired else [(s,) for s in samples]
        end, width = batch is None, 1 + paired
        return shares(given, width=width, steps=steps, size=ranks.size, draw=draw, stop=end)

    def _fetch(self, trainer: Any) -> RolloutBatch | None:
        if self._job.should_stop():
            return None
        policy = trainer.accelerator.unwrap_model(trainer.model)
        self.sync(policy, version=self._updates(trainer.state))
        batch, self._ready_at = self._job.source.next_batch(), time.perf_counter()  # of `train_s`
        return batch

    def _updates(self, state: Any) -> int:
        """Returns the number of updates done; transformers counts optimizer steps."""
        return state.global_step // self._steps.number

    def _between(self, state: Any) -> bool:
        """Returns whether an update has ended and none has begun."""
        return state.global_step % self._steps.number == 0

    @torch.no_grad()
    def _observe(self, model: nn.Module, args: object, output: Any) -> None:
        now, logps = self._now, getattr(output, "log_probs", None)
        if now is None or logps is None or not logps.requires_grad or not self._fresh:
            return  # it scores, generates for TRL's evaluation, or trains a policy that has moved
        self._sums += terms(now.padded, output)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Skips the step when nothing is trainable: without gradients optimizers do nothing.

        Raises:
            TrainingError: a loss or a gradient is not finite.
        """
        if self._skip:
            kwargs["model"].zero_grad(set_to_none=True)
            return
        # In half precision a scaler finds gradients that overflow, and skips the step itself.
        model = None if args.fp16 else kwargs["model"]
        with self._ranks.together():
            check_update(self._passes, model=model, update=self._updates(state) + 1)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Checks the new weights, and notes their step's learning rate and the end of `train_s`."""
        with self._ranks.together():
            check_weights(dict(kwargs["model"].named_parameters()), update=self._updates(state) + 1)
        self._rate = kwargs["optimizer"].param_groups[0]["lr"]  # the next step's is set after this
        self._timing["train_s"] = time.perf_counter() - self._ready_at

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tells the source of an unlogged update; asks for a checkpoint every `save_every`."""
        if not control.should_log and self._between(state):
            self._tell(state, logs={"learning_rate": self._rate})
            self._told = True
        due = self._save_every is not None and self._updates(state) % self._save_every == 0
        if due and self._between(state):
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Asks for the last checkpoint; an epoch of the placeholder dataset ends with one."""
        unsaved = self._save_every is not None and self._saved != self._updates(state)
        if control.should_training_stop and unsaved:
            control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Reports an update to the source, which only rank 0 has."""
        # The summary at the end has no such keys, and what a script logs by itself not both.
        if {"loss", "learning_rate"} <= kwargs["logs"].keys():
            check_logged(kwargs["logs"], update=self._updates(state) + (not self._between(state)))
            if self._between(state) and not self._told:
                self._tell(state, logs=kwargs["logs"])

    def _tell(self, state: Any, *, logs: Mapping[str, Any]) -> None:
        own = {"learning_rate": logs["learning_rate"], "skipped": float(not self._taken)}
        metrics = {**self._timing, **self._weighed, **own}
        if self._taken:  # by all processes: it sums over them
            sums = self._ranks.sum(self._sums)
            metrics |= figures(sums, job=self._job, logs=logs, taken=self._taken)
        if self._ranks.leads:
            self._job.source.updated(step=self._updates(state), metrics=metrics)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Completes a checkpoint, after all processes have written their part.

        Raises:
            ConfigError: a callback asked for it in the middle of an update.
        """
        if not self._between(state):
            raise ConfigError(
                f"a checkpoint was asked for after step {state.global_step}, and an update has "
                f"{self._steps.number} steps: ask for one after a multiple of them."
            )
        NOW.enter("saving")
        self._ranks.wait()
        if self._ranks.leads:
            self._commit(checkpoint.path_of(self._job.folder, step=state.global_step), state=state)
        self._ranks.wait()
        self._saved = self._updates(state)

    def _commit(self, folder: Path, *, state: Any) -> None:
        if self._save_every is not None and self._steps.number > 1:
            # transformers numbers by optimizer steps, which are more than the updates there were.
            folder = folder.rename(folder.with_name(f"checkpoint-{self._updates(state)}"))
        checkpoint.commit(folder, state=self._job.source.state_dict(), keep=self._keep)
