"""Training with TRL, which generates nothing here. Only `gfcr.train.trl*` import trl."""

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, final

from annotated_types import Interval

from gfcr.correction.base import Correction
from gfcr.errors import ConfigError, unknown_name
from gfcr.process.environment import load
from gfcr.train import checkpoint
from gfcr.train.base import TrainerConfig, TrainJob, TrainResult
from gfcr.types import Loss, Sampling
from gfcr.values.ranges import Count, Natural, NonNegative, Word

Schedule: TypeAlias = Literal["constant", "constant_with_warmup", "linear", "cosine"]


_ONLINE = ("grpo", "rloo")
"""Estimators whose TRL trainers generate, which they do not do here."""


@final
@dataclass(kw_only=True)
class Trl(TrainerConfig):
    """TRL's GRPO, RLOO, SFT or DPO trainer, fed through `_prepare_inputs` alone.

    Any number of samples makes an update. An update without trainable samples counts and leaves
    weights and optimizer as they are. One process; the model is kept in float32.
    """

    libraries: ClassVar[tuple[str, ...]] = ("trl.trainer.grpo_trainer",)
    max_steps: Count = 40
    learning_rate: Annotated[float, Interval(gt=0, le=1000.0)] = 2e-4
    schedule: Schedule = "constant"
    warmup_steps: Natural = 0
    optimizer: Word = "adamw_torch_fused"
    """A name of transformers' `OptimizerNames`."""
    adam_beta2: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    weight_decay: Annotated[float, Interval(ge=0, le=1000.0)] = 0.0
    max_grad_norm: NonNegative = 1.0
    """0 does not clip."""
    micro_batches: Annotated[int, Interval(ge=2, le=100000)] = 4
    """Forward and backward passes per update. At least 2: training ends between two of them."""
    beta: Annotated[float, Interval(ge=0, le=1000.0)] = 0.0
    """Weight of the KL term against the starting policy; only with `aggregation="dapo"`."""
    save_every: Count = 10
    """Updates between checkpoints; the last update is always saved."""
    keep_checkpoints: Count = 2
    bf16: bool = False
    """Autocast of the forward pass; weights and optimizer stay float32."""
    gradient_checkpointing: bool = False
    """Trades a second forward pass for memory."""

    def __post_init__(self) -> None:
        if self.schedule == "constant" and self.warmup_steps:
            raise ConfigError(
                f"trainer.warmup_steps={self.warmup_steps} is not allowed: give 0, or another "
                "schedule: 'constant' has no warm-up, 'constant_with_warmup' has."
            )

    def train(self, job: TrainJob) -> TrainResult:
        """See `TrainerConfig.train`."""
        self.check(job.loss, correction=job.correction, sampling=job.sampling)
        from gfcr.train.loading import load_policy, memory_told, quiet_transformers
        from gfcr.train.seam import Feed

        found = checkpoint.resume(job.folder, source=job.source, keep=self.keep_checkpoints)
        resumed = checkpoint.step_of(found) if found else 0
        feed = Feed(
            job,
            micro_batches=self.micro_batches,
            save_every=self.save_every,
            keep_checkpoints=self.keep_checkpoints,
        )
        with quiet_transformers(), memory_told():
            if found and resumed >= self.max_steps:
                feed.sync(load_policy(found), version=resumed)
            else:
                feed.run(self._trainer(job), resume_from=found)
        last = checkpoint.newest(job.folder)
        assert last, "training ends with a checkpoint"
        return TrainResult(updates=checkpoint.step_of(last), resumed_from=resumed, model=str(last))

    def check(self, loss: Loss, *, correction: Correction | None, sampling: Sampling) -> None:
        """See `TrainerConfig.check`; vouches for the optimizer's name too."""
        known = optimizers()
        if known and self.optimizer not in known:
            raise unknown_name(self.optimizer, kind="trainer.optimizer", allowed=known)
        if self.beta and loss.estimator != "grpo":
            raise ConfigError(
                f"trainer.beta={self.beta!r} has no effect with loss.estimator={loss.estimator!r} "
                "(a KL is part of grpo's loss alone): set trainer.beta=0 or estimator='grpo'."
            )
        _check_estimator(loss, correction=correction)
        if self.beta and loss.aggregation != "dapo":
            raise ConfigError(
                f"trainer.beta={self.beta!r} is exact only with loss.aggregation='dapo' "
                f"(given {loss.aggregation!r}): set trainer.beta=0 or aggregation='dapo'."
            )
        if sampling.temperature == 0:
            raise ConfigError(
                "sampling.temperature=0 is not allowed in training: greedy rollouts have no "
                "log-probs to take a gradient of. Give a temperature > 0."
            )
        truncated = sampling.top_p < 1 or sampling.top_k > 0 or sampling.min_p > 0
        if truncated and (correction is not None or loss.off_policy == "behaviour"):
            raise ConfigError(
                "a strategy with a correction, or with loss.off_policy='behaviour', compares "
                "log-probs of the whole vocabulary with those sampled under "
                f"top_p={sampling.top_p}, top_k={sampling.top_k}, min_p={sampling.min_p}, which "
                "biases the ratio: use sampling.top_p=1, top_k=0 and min_p=0, or leave it out."
            )

    def _trainer(self, job: TrainJob) -> Any:
        from gfcr.train.loading import load_tokenizer, placeholder
        from gfcr.train.seam import SeamMixin

        kind, config = classes(job.loss.estimator)
        try:
            args = config(**self._settings(job))
        except ValueError as error:
            hint = " Without a GPU, give trainer.bf16=false." if self.bf16 else ""
            raise ConfigError(
                f"TRL does not allow these trainer settings: {error}{hint}"
            ) from error
        if args.world_size > 1:
            raise ConfigError(
                f"gfcr trains in one process, and {args.world_size} were launched: start it "
                "without `torchrun` or `accelerate launch`."
            )
        seam: Any = type(f"Seam{kind.__name__}", (SeamMixin, kind), {})
        trainer = seam(
            model=job.model,
            **({"reward_funcs": _never} if job.loss.estimator in _ONLINE else {}),
            args=args,
            train_dataset=placeholder(rows=self.micro_batches, estimator=job.loss.estimator),
            processing_class=load_tokenizer(job.model),
        )
        vouch(trainer)
        return trainer

    def arguments(self, *, folder: Path, seed: int, sampling: Sampling) -> dict[str, Any]:
        """Returns these settings as TRL's, whoever makes the rollouts."""
        return {
            **self._common(folder=folder, seed=seed),
            "beta": self.beta,
            "temperature": sampling.temperature,
            "max_completion_length": sampling.max_tokens,
            "disable_dropout": True,  # the engine samples without
        }

    def _common(self, *, folder: Path, seed: int) -> dict[str, Any]:
        return {
            "output_dir": str(folder),
            "seed": seed,
            "max_steps": self.max_steps,
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": self.schedule,
            "warmup_steps": self.warmup_steps,
            "optim": self.optimizer,
            "adam_beta2": self.adam_beta2,
            "weight_decay": self.weight_decay,
            "max_grad_norm": self.max_grad_norm,
            "bf16": self.bf16,
            "gradient_checkpointing": self.gradient_checkpointing,
            "model_init_kwargs": {"dtype": "float32"},
            "gradient_accumulation_steps": self.micro_batches,
            "save_strategy": "no",
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        }

    def _settings(self, job: TrainJob) -> dict[str, Any]:
        """TRL's settings; with these the placeholder dataset is one update an epoch."""
        loss = job.loss
        if loss.estimator in _ONLINE:
            grpo = {"loss_type": loss.aggregation} if loss.estimator == "grpo" else {}
            return {
                **self.arguments(folder=job.folder, seed=job.seed, sampling=job.sampling),
                "epsilon": loss.clip_low,
                "epsilon_high": loss.clip_high,
                "per_device_train_batch_size": 2,
                "num_generations": 2,
                "shuffle_dataset": False,
                **grpo,
            }
        own = {"beta": loss.beta, "disable_dropout": True} if loss.estimator == "dpo" else {}
        common = self._common(folder=job.folder, seed=job.seed)
        return common | own | {"per_device_train_batch_size": 1, "max_length": None}


def classes(estimator: str) -> tuple[Any, Any]:
    """Returns TRL's trainer and configuration classes."""
    # Quietly: TRL names the vLLM versions its own generation supports, which the seam does not use.
    load([f"trl.trainer.{estimator}_trainer"])
    import trl as untyped

    trl: Any = untyped
    name = estimator.upper()
    return getattr(trl, f"{name}Trainer"), getattr(trl, f"{name}Config")


def _check_estimator(loss: Loss, *, correction: Correction | None) -> None:
    """Refuses settings of the loss that the estimator would ignore."""
    plain = Loss(estimator=loss.estimator)
    ignored = ["beta"] if loss.estimator != "dpo" else []
    if loss.estimator not in _ONLINE:
        ignored += ["aggregation", "clip_low", "clip_high", "off_policy"]
    given = [f"{k}={getattr(loss, k)!r}" for k in ignored if getattr(loss, k) != getattr(plain, k)]
    given += ["a correction"] if correction and loss.estimator not in _ONLINE else []
    if given:
        raise ConfigError(
            f"{', '.join(given)}: no effect with loss.estimator={loss.estimator!r}. Leave it out."
        )


@cache
def optimizers() -> tuple[str, ...]:
    """The installed transformers' `OptimizerNames`, () without it.

    Read from its source: a study is checked whole before anything starts, and importing torch for
    it takes seconds.
    """
    found = find_spec("transformers")
    if found is None or found.origin is None:
        return ()
    source = Path(found.origin).with_name("training_args.py").read_text("utf-8")
    names = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "OptimizerNames"
    )
    values = [statement.value for statement in names if isinstance(statement, ast.Assign)]
    return tuple(str(value.value) for value in values if isinstance(value, ast.Constant))


def vouch(trainer: Any) -> None:
    """Vouches that no environment variable changes training behind the settings' back.

    `accelerate launch` and its configuration speak through such variables.

    Raises:
        ConfigError: one does; names what it asks for.
    """
    args = trainer.args
    mixed = "bf16" if args.bf16 else "no"
    compiler = str(trainer.accelerator.state.dynamo_plugin.backend.value)
    given = {
        "ACCELERATE_MIXED_PRECISION": args.mixed_precision if args.mixed_precision != mixed else "",
        "ACCELERATE_USE_FSDP": "true" if trainer.is_fsdp_enabled else "",
        "ACCELERATE_USE_DEEPSPEED": "true" if trainer.is_deepspeed_enabled else "",
        "ACCELERATE_DYNAMO_BACKEND": "" if compiler == "NO" else compiler.lower(),
    }
    wrong = [f"{name}={value}" for name, value in given.items() if value]
    if wrong:
        raise ConfigError(
            f"accelerate was configured with {', '.join(wrong)}, which the trainer's settings do "
            f"not say (bf16={args.bf16}): unset it, or start without `accelerate launch`; bf16 "
            "is a setting of the trainer."
        )


def _never(**_: Any) -> list[float]:
    raise AssertionError("TRL was about to score completions of its own")
