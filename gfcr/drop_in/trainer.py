"""TRL's GRPOTrainer with a strategy: dynamic sampling, adaptive groups, replay, speculation."""

import copy
import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from transformers import TrainerCallback
from transformers.trainer_utils import rotate_checkpoints

from gfcr import models, registry
from gfcr import strategy as strategies
from gfcr.drop_in import given, settings
from gfcr.drop_in.encode import TrlCodec, sampling_of
from gfcr.drop_in.logs import log_batch
from gfcr.drop_in.resumed import Identity, checkpoint_of, clear
from gfcr.drop_in.rewards import TrlRewards, rows_of
from gfcr.errors import ConfigError
from gfcr.loop.alike import warnings
from gfcr.loop.stream import PromptStream
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.codec import HfCodec
from gfcr.tracking.lock import locked
from gfcr.tracking.parquet import Corrections, write_corrections
from gfcr.tracking.rollouts import spelling, write_rollouts
from gfcr.train.base import TrainJob
from gfcr.train.seam import Feed, SeamMixin
from gfcr.train.trl import Trl, classes
from gfcr.train.trl_checks import vouch
from gfcr.types import RolloutBatch
from gfcr.values.notes import REWARDS

log = logging.getLogger(__name__)

_Trl: Any = classes("grpo")[0]
_ALL: Final = 2**31
"""Checkpoints are rotated by the rules of transformers, which keep the best of them."""


class GRPOTrainer(SeamMixin, _Trl):
    """TRL's GRPOTrainer whose rollouts, filters, advantages and replay are a strategy's.

    Model, reward functions, dataset, `GRPOConfig` and callbacks are those of the script; loss,
    optimizer, schedule, logging and checkpoints remain TRL's. A batch is the groups of
    per_device_train_batch_size x steps_per_generation / num_generations prompts, and there are as
    many steps as TRL would make. `loss_type`, `epsilon`, `epsilon_high`, `scale_rewards` and
    `mask_truncated_completions` become the strategy's. Reward functions see all completions of a
    batch at once. Every rollout is written to `output_dir/rollouts` before it is used; a run
    resumes with `resume_from_checkpoint`.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        *,
        strategy: str | Mapping[str, Any] | Strategy = "grpo",
        engine: Mapping[str, Any] | None = None,
        **trl: Any,
    ) -> None:
        """Makes the trainer; the engine starts with `train` and ends with it.

        Args:
            model: a folder, a Hub id, a demo model, or a transformers model, which is trained
                itself and saved in `output_dir` for the engine to start from.
            reward_funcs: as TRL's.
            args: a `GRPOConfig`; the engine is ours, whether `use_vllm` is set or not.
            train_dataset: with a `prompt` column; of known length.
            strategy: a name, a `Strategy`, copied with groups of `num_generations`, or as an
                experiment's `strategy`: `{"name": "dapo", "replay": ...}`.
            engine: settings of the engine, `{"dtype": "bfloat16"}`; vLLM unless it has a `name`.
            trl: what else TRL's trainer takes.

        Raises:
            ConfigError: something of it cannot go with a strategy; says what to do.
        """
        self.strategy = _load(strategy, args=args)
        given.check(
            model=model,
            reward_funcs=reward_funcs,
            args=args,
            dataset=train_dataset,
            strategy=self.strategy,
            others=trl,
        )
        self.strategy.check()
        loss, correction = self.strategy.loss, self.strategy.correction
        self._sampling = sampling_of(args)
        Trl(beta=args.beta).check(loss, correction=correction, sampling=self._sampling)
        self._engine_config = registry.build("engine", {"name": "vllm", **(engine or {})})
        if changed := settings.overruled(args, strategy=self.strategy):
            _say(f"the loss is that of strategy '{self.strategy.name}': {changed}")
        args = copy.copy(args)
        args.use_vllm, args.generation_kwargs = False, None  # ours are honoured by the engine
        args._n_gpu = min(args.n_gpu, 1)  # else each pass is spread over all GPUs that are seen
        for name, value in self.strategy.loss.of_trl().items():
            setattr(args, name, value)
        if isinstance(model, str | Path):
            self._folder = str(models.resolve(model))
            _Trl.__init__(self, self._folder, reward_funcs, args, train_dataset, **trl)
        else:
            tokenizer = trl.get("processing_class")
            self._saved = given.saved(model, tokenizer=tokenizer, beside=args.output_dir)
            self._folder = self._saved.name
            with given.known_as(model, folder=self._folder):
                _Trl.__init__(self, model, reward_funcs, args, train_dataset, **trl)
        vouch(self)
        self._codec = TrlCodec(HfCodec(self._folder), trainer=self)
        given.check_loaded(self, folder=self._folder)
        try:
            rows_of(self.train_dataset, trainer=self)[0]
        except Exception as error:
            raise ConfigError(f"the prompt of row 0 cannot be encoded: {error}") from error

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        *,
        accept_data: bool = False,
        **trl: Any,
    ) -> Any:
        """Trains, as TRL's `train`.

        Args:
            resume_from_checkpoint: as TRL's.
            accept_data: resume although rows, chat template or reward functions have changed; what
                the strategy remembers of prompts and rollouts is forgotten then.
            trl: what else TRL's `train` takes.

        Raises:
            CheckpointError: the checkpoint has no rollout side, or that of another strategy or
                seed, or of other rows, another chat template or other rewards.
            ConfigError: `trainer.args` was changed to what is not honoured.
            EngineError: the engine cannot start.
            FolderInUse: another trainer writes to `output_dir`.
        """
        wrong = settings.refused(self.args, strategy=self.strategy)
        given.refuse(wrong, strategy=self.strategy)
        with locked(self.args.output_dir):
            return self._train(resume_from_checkpoint, accept_data=accept_data, **trl)

    def _train(
        self, resume_from_checkpoint: str | bool | None, *, accept_data: bool, **trl: Any
    ) -> Any:
        folder = Path(self.args.output_dir)
        resumed = checkpoint_of(resume_from_checkpoint, folder=folder)
        of = Identity.of_trainer(self)
        state = of.state(resumed, accept_data=accept_data) if resumed else None
        clear(folder / "rollouts", batches=state["step"] if state else 0)
        if self.strategy.drafter is not None:
            self.strategy.drafter.fetch(models.resolve)
        start = self._engine_config.start
        engine = start(model=self._folder, seed=self.args.seed, drafter=self.strategy.drafter)
        rows = rows_of(self.train_dataset, trainer=self)
        rewards = TrlRewards(trainer=self, rows=rows, codec=self._codec)
        with closing(engine), closing(self._pipeline(engine, task=rewards)) as pipeline:
            source = _Source(pipeline, trainer=self, rewards=rewards, of=of)
            if state is not None:
                source.load_state_dict(state)
            job = TrainJob(
                model=self._folder,
                source=source,
                loss=self.strategy.loss,
                correction=self.strategy.correction,
                seed=self.args.seed,
                folder=folder,
                sampling=pipeline.sampling,
                record=source.corrected,
            )
            steps = given.steps_of(self.args)
            feed = Feed(job, steps=steps, save_every=None, keep_checkpoints=_ALL)
            with feed.feeding(self):
                self.remove_callback(_Rotation)  # an earlier call's, which is before this feed
                self.add_callback(_Rotation)
                return _Trl.train(self, str(resumed) if resumed else None, **trl)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Saves as TRL does, and leaves older checkpoints until the new one is complete."""
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            _Trl._save_checkpoint(self, model, trial)
        finally:
            self.args.save_total_limit = limit

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Returns the strategy's micro-batches in training; in evaluation TRL generates itself."""
        training = self.model.training
        return (SeamMixin if training else _Trl)._prepare_inputs(self, generation_batch)

    def _pipeline(self, engine: Any, *, task: TrlRewards) -> Pipeline:
        rows, rollouts = task.rows, Path(self.args.output_dir) / "rollouts"
        spell = spelling(self._codec.decode)
        return Pipeline(
            self.strategy,
            engine=engine,
            task=task,
            train=rows,
            codec=self._codec,
            prompts=given.prompts_of(self.args),
            sampling=self._sampling,
            seed=self.args.seed,
            stream=None if self.args.shuffle_dataset else PromptStream(rows, seed=None),
            sink=lambda batch: write_rollouts(rollouts, batch=batch, spell=spell),
        )


class _Rotation(TrainerCallback):
    """Drops older checkpoints, as transformers does, once the feed has completed a new one."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        best = state.best_model_checkpoint
        rotate_checkpoints(args.output_dir, args.save_total_limit, best, use_mtime=True)


class _Source:
    """Feeds TRL from the pipeline, and logs its metrics and completions as TRL's."""

    def __init__(
        self, pipeline: Pipeline, *, trainer: Any, rewards: TrlRewards, of: Identity
    ) -> None:
        self._pipeline, self._trainer, self._rewards = pipeline, trainer, rewards
        self._of = of
        self.sync, self.masked = pipeline.sync, pipeline.masked

    def next_batch(self) -> RolloutBatch:
        batch, rewards = self._pipeline.next_batch(), self._rewards
        logged = self._trainer._metrics["train"]
        for name, value in batch.metrics.items():
            if not name.startswith(REWARDS):  # TRL's names too
                logged[name].append(value)
        met = {r.prompt.id: r.prompt for g in batch.groups for r in g.rollouts}
        prompts = {id: rewards.as_given(prompt) for id, prompt in met.items()}
        log_batch(self._trainer, batch=batch, prompts=prompts, extras=rewards.extras)
        told = () if batch.step else warnings(batch, task=rewards, strategy=self._pipeline.strategy)
        for said in told:
            _say(said)
        return batch

    def corrected(self, *, made: Corrections, update: int) -> None:
        """See `TrainJob.record`; what it measured is logged now, for the row of this update."""
        trainer = self._trainer
        write_corrections(Path(trainer.args.output_dir) / "rollouts", made=made, update=update)
        for name, value in trainer.strategy.correction.metrics().items():
            trainer._metrics["train"][f"correction/{name}"].append(value)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        self._pipeline.updated(metrics)

    def state_dict(self) -> dict[str, Any]:
        return {**asdict(self._of), "pipeline": self._pipeline.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._pipeline.load_state_dict({**self._pipeline.state_dict(), **state})


@cache
def _say(words: str) -> None:
    """Warns, once however many trainers are made."""
    log.warning(words)


def _load(asked: str | Mapping[str, Any] | Strategy, *, args: Any) -> Strategy:
    if isinstance(asked, Strategy):
        loaded, knobs = copy.deepcopy(asked), dict.fromkeys(("loss", "filters"))
    else:
        knobs = {"name": asked} if isinstance(asked, str) else dict(asked)
        loaded = strategies.load(str(knobs.pop("name", "")), **knobs)
    size = getattr(args, "num_generations", None)
    if size is None:
        return loaded  # no `GRPOConfig`, which is refused
    sized = loaded if "group_size" in knobs else replace(loaded, group_size=size)
    return settings.adopted(sized, args=args, own=knobs)
