"""The seam between rollouts and a TRL trainer: one hook feeds it, one callback follows it.

`SeamMixin._prepare_inputs` replaces TRL's generation; everything after it (loss, backward,
optimizer, schedule, checkpoint) is TRL's and transformers' own code. Imports nothing of trl.
"""

import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from transformers import PrinterCallback, TrainerCallback

from gfcr.train import checkpoint
from gfcr.train.base import TrainJob
from gfcr.train.collate import Padded, collate, loss_tokens, micro_batches, trainable, units
from gfcr.train.corrected import corrected
from gfcr.train.health import Pass, check_logged, check_update, check_weights
from gfcr.train.loss_inputs import BUILDERS, dpo_inputs
from gfcr.train.pairs import pairs
from gfcr.types import RolloutBatch, Sample

_REPORTED: Final = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "kl": "kl",
    "clip_ratio/low_mean": "clip_ratio_low",
    "clip_ratio/high_mean": "clip_ratio_high",
    "clip_ratio/region_mean": "clip_ratio",
}
"""TRL's log keys and ours."""


class _Micro(NamedTuple):
    padded: Padded
    inputs: dict[str, Any]
    samples: list[Sample]
    scale: float = 1.0
    """Multiplies the loss where the inputs have no place for it."""


class SeamMixin:
    """Goes before a TRL trainer in the bases of a class."""

    feed: "Feed"

    def _prepare_inputs(self, generation_batch: object) -> dict[str, Any]:
        """Returns the next micro-batch; the dataset row TRL passes is a placeholder."""
        return self.feed.next_inputs(self)

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's, shown to the feed."""
        trl: Any = super()
        if not model.training:
            return trl.compute_loss(model, inputs, *args, **kwargs)
        loss = trl.compute_loss(model, inputs, *args, **self.feed.counted(kwargs))
        return self.feed.computed(loss)


@final
class Feed(TrainerCallback):
    """Pulls batches from the source at the start of each update and reports back at its end.

    The order of an update N+1: `source.sync(version=N)`, `source.next_batch()`, forward and
    backward passes, optimizer step, `source.updated(step=N+1)`, checkpoint.
    """

    def __init__(
        self, job: TrainJob, *, micro_batches: int, save_every: int | None, keep_checkpoints: int
    ) -> None:
        """Makes a feed.

        Args:
            job: the source and what to do with it.
            micro_batches: forward and backward passes of an update.
            save_every: updates between checkpoints; None leaves them to the trainer.
            keep_checkpoints: how many stay.
        """
        self._job = job
        self._count = micro_batches
        self._save_every, self._keep = save_every, keep_checkpoints
        self._queue: deque[_Micro] = deque()
        self._current: Padded | None = None
        self._samples: Sequence[Sample] = ()
        """Of the current micro-batch."""
        self._passes: list[Pass] = []
        self._scale, self._tokens = 1.0, 0
        """Of the current micro-batch's loss; tokens of the update's."""
        self._skip = False
        self._saved: int | None = None
        self._synced: int | None = None
        self._sums = torch.zeros(5, dtype=torch.float64)
        self._timing: dict[str, float] = {}
        self._ready_at = 0.0

    def run(self, trainer: Any, *, resume_from: Path | None) -> None:
        """Trains to the end and leaves the engine with the final policy."""
        trainer.remove_callback(PrinterCallback)
        if resume_from:
            self._saved = checkpoint.step_of(resume_from)
        with self.feeding(trainer):
            trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
        self.sync(trainer.model, version=trainer.state.global_step)

    @contextmanager
    def feeding(self, trainer: Any) -> Generator[None]:
        """Makes the trainer learn from the source for a while."""
        trainer.feed = self
        trainer.add_callback(self)
        watch = trainer.model.register_forward_hook(self._observe)
        try:
            yield
        finally:
            watch.remove()
            trainer.remove_callback(self)

    def sync(self, model: nn.Module, *, version: int) -> None:
        """Hands the policy to the engine, unless it has this version."""
        if version == self._synced:
            return
        if self._synced is None:
            check_weights(model, update=version)
        started = time.perf_counter()
        self._job.source.sync(model.named_parameters(), version=version)
        self._synced = version
        self._timing["sync_s"] = time.perf_counter() - started

    def next_inputs(self, trainer: Any) -> dict[str, Any]:
        """The inputs of the next forward pass; begins an update when the last one is used up."""
        if not self._queue:
            self._begin_update(trainer)
        self._current, inputs, self._samples, self._scale = self._queue.popleft()
        return inputs

    def counted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What TRL's loss is called with: for `sft`, the update's tokens, not the placeholder's."""
        if self._job.loss.estimator != "sft":
            return dict(given)
        # Without a count transformers divides by the number of passes itself.
        passes = self._count if given.get("num_items_in_batch") is None else 1
        return {**given, "num_items_in_batch": torch.tensor(self._tokens / passes)}

    def computed(self, loss: Tensor) -> Tensor:
        """Keeps the loss of the current micro-batch until the optimizer is about to step."""
        loss = loss * self._scale if self._scale != 1 else loss
        self._passes.append(Pass(loss=loss.detach(), samples=self._samples))
        return loss

    def _begin_update(self, trainer: Any) -> None:
        batch = self._fetch(trainer)
        if batch is None:
            # transformers looks at this after every micro-batch: as an update has at least two,
            # training ends before the optimizer step.
            trainer.control.should_training_stop = True
        samples = trainable(batch.samples) if batch else []
        if samples and self._job.correction:
            samples = corrected(trainer, samples, by=self._job.correction, count=self._count)
            self._job.source.masked({s.rollout.id: s.rollout.mask_T for s in samples})
            samples = trainable(samples)
        self._skip, self._passes = not samples, []
        self._sums = torch.zeros(5, dtype=torch.float64, device=trainer.accelerator.device)
        self._ready_at = time.perf_counter()
        self._queue.extend(self._micro_batches(trainer, samples))

    def _fetch(self, trainer: Any) -> RolloutBatch | None:
        if self._job.should_stop():
            return None
        self.sync(
            trainer.accelerator.unwrap_model(trainer.model), version=trainer.state.global_step
        )
        return self._job.source.next_batch()

    def _micro_batches(self, trainer: Any, samples: list[Sample]) -> list[_Micro]:
        loss, self._tokens = self._job.loss, loss_tokens(samples)
        if loss.estimator == "dpo":
            return self._paired(trainer, samples)
        averages_rows = loss.estimator == "rloo" or loss.aggregation != "dapo"
        made: list[_Micro] = []
        for run in micro_batches(samples, count=self._count):
            padded = collate(run, device=trainer.accelerator.device)
            # TRL averages the micro-batches' row means: undo it, so that each row weighs the same.
            scale = len(run) * self._count / len(samples) if averages_rows and samples else 1.0
            build = BUILDERS[loss.estimator]
            inputs = build(trainer, padded, loss=loss, scale=scale, tokens=loss_tokens(samples))
            made.append(_Micro(padded, inputs, run))
        return made

    def _paired(self, trainer: Any, samples: list[Sample]) -> list[_Micro]:
        """Micro-batches of pairs, each of which weighs the same."""
        every, made = pairs(samples), list[_Micro]()
        for run in units(every, count=self._count):
            rows = [*(p.chosen for p in run), *(p.rejected for p in run)]
            padded = collate(rows, device=trainer.accelerator.device, rows=2)
            inputs = dpo_inputs(trainer, padded, loss=self._job.loss, scale=1.0, tokens=0)
            scale = len(run) * self._count / max(len(every), 1)
            made.append(_Micro(padded, inputs, rows, scale))
        return made

    @torch.no_grad()
    def _observe(self, model: nn.Module, args: object, output: Any) -> None:
        now, logps = self._current, getattr(output, "log_probs", None)
        if now is None or logps is None or not logps.requires_grad:
            return  # a pass that scores, or generates for TRL's evaluation, and does not train
        width = now.loss_mask_BT.size(1)
        mask = now.loss_mask_BT.float()
        gap = (logps[:, -width:] - now.sampled_logps_BT) * mask
        entropy, ratio = output.entropy[:, -width:] * mask, gap.double().exp() * mask
        terms = (entropy, ratio, ratio.square(), gap.abs(), mask)
        self._sums += torch.stack([term.sum(dtype=torch.float64) for term in terms])

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Skips the update when nothing is trainable: without gradients optimizers do nothing.

        Raises:
            TrainingError: a loss or a gradient is not finite.
        """
        if self._skip:
            kwargs["model"].zero_grad(set_to_none=True)
            return
        # In half precision a scaler finds gradients that overflow, and skips the step itself.
        model = None if args.fp16 else kwargs["model"]
        check_update(self._passes, model=model, update=state.global_step + 1)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stops the clock."""
        check_weights(kwargs["model"], update=state.global_step + 1)
        self._timing["train_s"] = time.perf_counter() - self._ready_at

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Asks for a checkpoint every so often."""
        if self._save_every is not None and state.global_step % self._save_every == 0:
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Asks for the last checkpoint; an epoch of the placeholder dataset is one update."""
        unsaved = self._save_every is not None and self._saved != state.global_step
        if control.should_training_stop and unsaved:
            control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Reports an update to the source."""
        if "loss" in kwargs["logs"]:  # the summary at the end has none
            check_logged(kwargs["logs"], update=state.global_step)
            metrics = self._metrics(kwargs["logs"])
            self._job.source.updated(step=state.global_step, metrics=metrics)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Completes a checkpoint."""
        folder = checkpoint.path_of(self._job.folder, step=state.global_step)
        checkpoint.commit(folder, state=self._job.source.state_dict(), keep=self._keep)
        self._saved = state.global_step

    def _metrics(self, logs: Mapping[str, Any]) -> dict[str, float]:
        base = {
            **self._timing,
            "learning_rate": logs["learning_rate"],
            "skipped": float(self._skip),
        }
        if self._skip:
            return base
        entropy, ratio, square, gap, tokens = (float(x) for x in self._sums)
        own = {
            "entropy": entropy / tokens,
            "off_policy_ratio": ratio / tokens,
            "effective_share": ratio**2 / (tokens * square),
            "logprob_gap": gap / tokens,
        }
        return base | own | {ours: logs[k] for k, ours in _REPORTED.items() if k in logs}
