"""TRL's GRPOTrainer with a strategy: dynamic sampling, adaptive groups, replay, speculation."""

import copy
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gfcr import models, registry
from gfcr import strategy as strategies
from gfcr.drop_in.encode import sampling_of
from gfcr.drop_in.rewards import Rows, TrlRewards
from gfcr.errors import CheckpointError, ConfigError
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.codec import HfCodec
from gfcr.tracking.rollouts import write_rollouts
from gfcr.train import checkpoint
from gfcr.train.base import TrainJob
from gfcr.train.seam import Feed, SeamMixin
from gfcr.train.trl import Trl, classes
from gfcr.types import RolloutBatch

if TYPE_CHECKING:
    from gfcr.engine.base import Weights

_Trl: Any = classes("grpo")[0]

_NOT_OURS: Final = {
    "rollout_func": "the strategy makes the rollouts",
    "tools": "use a strategy with a tool, such as multi_turn",
    "environment_factory": "use a strategy with a tool, such as multi_turn",
    "peft_config": "the engine is given whole weights",
    "quantization_config": "the engine is given whole weights",
}
"""What TRL takes and this trainer does not, and why."""


class GRPOTrainer(SeamMixin, _Trl):
    """TRL's GRPOTrainer whose rollouts, filters, advantages and replay are a strategy's.

    Model, reward functions, dataset, `GRPOConfig` and callbacks are those of the script; loss,
    optimizer, schedule, logging and checkpoints remain TRL's. An update trains on the groups of
    per_device_train_batch_size x gradient_accumulation_steps / num_generations prompts, and there
    are as many updates as TRL would make. `loss_type`, `epsilon` and `epsilon_high` are the
    strategy's. Reward functions see one completion at a time. Every rollout is written to
    `output_dir/rollouts` before it is used; a run resumes with `resume_from_checkpoint`.
    """

    def __init__(
        self,
        model: str,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        *,
        strategy: str | Mapping[str, Any] = "grpo",
        engine: Mapping[str, Any] | None = None,
        **trl: Any,
    ) -> None:
        """Makes the trainer; the engine starts with `train` and ends with it.

        Args:
            model: a folder, a Hub id or a demo model: the engine loads it too.
            reward_funcs: as TRL's.
            args: a `GRPOConfig`; `use_vllm` stays False, the engine is ours.
            train_dataset: with a `prompt` column; of known length.
            strategy: a name, or as an experiment's `strategy`: `{"name": "dapo", "replay": ...}`.
            engine: settings of the engine, `{"dtype": "bfloat16"}`; vLLM unless it has a `name`.
            trl: what else TRL's trainer takes.

        Raises:
            ConfigError: something of it cannot go with a strategy; says what to do.
        """
        self.strategy = _load(strategy, args=args)
        _check(args, strategy=self.strategy, given=trl, dataset=train_dataset)
        self._engine_config = registry.build("engine", {"name": "vllm", **(engine or {})})
        self._folder = str(models.resolve(model))
        args = copy.copy(args)
        loss = self.strategy.loss
        args.loss_type, args.epsilon = loss.aggregation, loss.clip_low
        args.epsilon_high = loss.clip_high
        _Trl.__init__(self, self._folder, reward_funcs, args, train_dataset, **trl)

    def train(self, resume_from_checkpoint: str | bool | None = None, **trl: Any) -> Any:
        """Trains, as TRL's `train`.

        Raises:
            CheckpointError: the checkpoint has no rollout side: another trainer wrote it.
            EngineError: the engine cannot start.
        """
        folder = Path(self.args.output_dir)
        resumed = _checkpoint(resume_from_checkpoint, folder=folder)
        if self.strategy.drafter is not None:
            self.strategy.drafter.fetch(models.resolve)
        start = self._engine_config.start
        engine = start(model=self._folder, seed=self.args.seed, drafter=self.strategy.drafter)
        with closing(engine), closing(self._pipeline(engine)) as pipeline:
            source = _Source(pipeline, trainer=self, folder=folder / "rollouts")
            if resumed is not None:
                source.load_state_dict(checkpoint.load(resumed))
            job = TrainJob(
                model=self._folder,
                source=source,
                loss=self.strategy.loss,
                seed=self.args.seed,
                folder=folder,
                sampling=pipeline.sampling,
            )
            feed = Feed(
                job,
                micro_batches=self.args.gradient_accumulation_steps,
                save_every=None,
                keep_checkpoints=self.args.save_total_limit or 2**31,
            )
            with feed.feeding(self):
                return _Trl.train(self, str(resumed) if resumed else None, **trl)

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Micro-batches of the strategy in training; in evaluation TRL generates by itself."""
        training = self.model.training
        return (SeamMixin if training else _Trl)._prepare_inputs(self, generation_batch)

    def _pipeline(self, engine: Any) -> Pipeline:
        rows = Rows(self.train_dataset, trainer=self)
        return Pipeline(
            self.strategy,
            engine=engine,
            task=TrlRewards(trainer=self, rows=rows),
            train=rows,
            codec=HfCodec(self._folder),
            prompts=_prompts(self.args),
            sampling=sampling_of(self.args),
            seed=self.args.seed,
        )


class _Source:
    """See `train.base.BatchSource`: the pipeline, its rollouts written, its metrics TRL's."""

    def __init__(self, pipeline: Pipeline, *, trainer: Any, folder: Path) -> None:
        self._pipeline, self._trainer = pipeline, trainer
        self._folder, pipeline.sink = folder, self._write

    def next_batch(self) -> RolloutBatch:
        batch = self._pipeline.next_batch()
        logged = self._trainer._metrics["train"]
        for name, value in batch.metrics.items():
            logged[name].append(value)
        if "reward/all" in batch.metrics:
            logged["reward"].append(batch.metrics["reward/all"])  # where TRL users look
        return batch

    def sync(self, weights: "Weights", *, version: int) -> None:
        self._pipeline.sync(weights, version=version)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        """TRL has logged it."""

    def state_dict(self) -> dict[str, Any]:
        return self._pipeline.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._pipeline.load_state_dict(state)

    def _write(self, batch: RolloutBatch) -> None:
        write_rollouts(self._folder, batch=batch)


def _load(given: str | Mapping[str, Any], *, args: Any) -> Strategy:
    knobs: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    loaded = strategies.load(str(knobs.pop("name", "")), **knobs)
    if "group_size" in knobs or args is None:
        return loaded
    return replace(loaded, group_size=args.num_generations)


def _check(args: Any, *, strategy: Strategy, given: Mapping[str, Any], dataset: Any) -> None:
    refused = [f"{key}: {why}" for key, why in _NOT_OURS.items() if given.get(key) is not None]
    refused += ["args: give a GRPOConfig"] if args is None else _refused(args, strategy=strategy)
    if not hasattr(dataset, "__len__"):
        refused.append("train_dataset: give one of known length, with a `prompt` column")
    if refused:
        raise ConfigError(
            f"gfcr.drop_in.GRPOTrainer with strategy '{strategy.name}': {'; '.join(refused)}."
        )
    assert args is not None
    Trl(beta=args.beta).check(strategy.loss, sampling=sampling_of(args))


def _refused(args: Any, *, strategy: Strategy) -> list[str]:
    rollouts = args.per_device_train_batch_size * args.gradient_accumulation_steps
    conditions = {
        f"num_generations={args.num_generations} and group_size={strategy.group_size}: give one "
        "of them": args.num_generations != strategy.group_size,
        f"per_device_train_batch_size x gradient_accumulation_steps = {rollouts} rollouts are no "
        f"whole groups of {args.num_generations}": rollouts % args.num_generations != 0,
        "use_vllm=True: leave it out, the engine is the strategy's": args.use_vllm,
        f"num_iterations={args.num_iterations}: give 1": args.num_iterations != 1,
        f"{args.world_size} processes: one is allowed": args.world_size != 1,
        f"the strategy's loss is {strategy.loss.estimator}: only grpo's is this trainer's": (
            strategy.loss.estimator != "grpo"
        ),
    }
    return [words for words, wrong in conditions.items() if wrong]


def _prompts(args: Any) -> int:
    rollouts: int = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return rollouts // args.num_generations


def _checkpoint(asked: str | bool | None, *, folder: Path) -> Path | None:
    if not asked:
        return None
    found = checkpoint.newest(folder) if asked is True else Path(asked)
    if found is None or not (found / checkpoint.MARKER).exists():
        raise CheckpointError(
            f"{found or folder} holds no checkpoint of this trainer ({checkpoint.MARKER} is "
            "missing): give one, or train from the start."
        )
    return found
