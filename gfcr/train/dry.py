"""Training without a model: consumes batches and counts updates."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from gfcr.train import checkpoint
from gfcr.train.base import TrainerConfig, TrainJob, TrainResult
from gfcr.values.ranges import Count, NonNegative


@final
@dataclass(kw_only=True)
class Dry(TrainerConfig):
    """Learns nothing, for the fake engine, simulations and generation-only measurements.

    Asks for batches, syncs, reports and checkpoints in the same order as a real trainer, so that
    the rollout side cannot tell the difference. The policy never changes.
    """

    needs_model: ClassVar[bool] = False
    max_steps: Count = 40
    save_every: Count = 10
    """Updates between checkpoints; the last update is always saved."""
    keep_checkpoints: Count = 2
    train_s: NonNegative = 0.0
    """Seconds that an update is made to take, as by a trainer on a device of its own."""

    def train(self, job: TrainJob) -> TrainResult:
        """Runs updates until `max_steps`, the source's end, or `job.should_stop`."""
        source = job.source
        found = checkpoint.resume(job.folder, source=source, keep=self.keep_checkpoints)
        resumed = saved = step = checkpoint.step_of(found) if found else 0
        weights = _weights(job.model)
        while True:
            started = time.perf_counter()
            # The loop may end behind this, as the last evaluation is of the last policy.
            source.sync(weights, version=step)
            synced_s = time.perf_counter() - started
            if step >= self.max_steps or job.should_stop():
                break
            batch = source.next_batch()
            if batch is None:
                break
            step += 1
            began = time.perf_counter()
            time.sleep(self.train_s)
            times = {"sync_s": synced_s, "train_s": time.perf_counter() - began}
            source.updated(step=step, metrics={"skipped": float(not batch.samples), **times})
            if step % self.save_every == 0 or step == self.max_steps:
                saved = self._save(job, step=step)
        if saved != step or not step:
            self._save(job, step=step)
        return TrainResult(updates=step, resumed_from=resumed, model=job.model)

    def _save(self, job: TrainJob, *, step: int) -> int:
        folder = checkpoint.path_of(job.folder, step=step)
        checkpoint.commit(folder, state=job.source.state_dict(), keep=self.keep_checkpoints)
        return step


def _weights(model: str) -> Sequence[tuple[str, Any]]:
    """Returns the model's weights, which real engines load at each sync; the fake one has none."""
    if not (Path(model) / "config.json").is_file():
        return ()
    from gfcr.train.loading import load_policy

    return [*load_policy(Path(model)).named_parameters()]
