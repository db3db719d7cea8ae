"""Trainer on TRL, which generates nothing here. Only `gfcr.train.trl*` import trl."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, final

from annotated_types import Interval

from gfcr.correction.base import Correction
from gfcr.errors import ConfigError
from gfcr.process.environment import load
from gfcr.process.launched import place
from gfcr.process.tokenizer import tokenizer_of
from gfcr.train import adapters, checkpoint
from gfcr.train.base import Steps, TrainerConfig, TrainJob, TrainResult
from gfcr.train.trl_checks import ONLINE, check_estimator, check_optimizer, vouch
from gfcr.types import Loss, Sampling
from gfcr.values.ranges import Count, Natural, NonNegative, Word

if TYPE_CHECKING:
    from gfcr.train.seam import Feed

Schedule: TypeAlias = Literal["constant", "constant_with_warmup", "linear", "cosine"]


@final
@dataclass(kw_only=True)
class Trl(TrainerConfig):
    """TRL's GRPO, RLOO, SFT or DPO trainer, fed through `_prepare_inputs` alone.

    Any number of samples makes an update. An update without trainable samples counts and leaves
    weights and optimizer as they are. The model is kept in float32; processes that `accelerate
    launch` starts together share the samples of an update, by DDP or FSDP2.
    """

    spreads: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("trl.trainer.grpo_trainer",)
    max_steps: Count = 40
    learning_rate: Annotated[float, Interval(gt=0, le=1000.0)] = 1e-6
    schedule: Schedule = "constant"
    warmup_steps: Natural = 0
    optimizer: Word = "adamw_torch_fused"
    """Name of the optimizer in transformers' `OptimizerNames`."""
    adam_beta2: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    weight_decay: Annotated[float, Interval(ge=0, le=1000.0)] = 0.0
    max_grad_norm: NonNegative = 1.0
    """Largest norm of the gradient, beyond which it is clipped; 0 does not clip."""
    micro_batches: Annotated[int, Interval(ge=2, le=100000)] = 4
    """Forward and backward passes of a step, in each process. At least 2: training ends between
    two of them."""
    mini_batches: Annotated[int, Interval(ge=1, le=100)] = 1
    """Parts that an update's samples are split into at random, with an optimizer step each."""
    iterations: Annotated[int, Interval(ge=1, le=100)] = 1
    """Number of times that an update goes through its samples."""
    beta: Annotated[float, Interval(ge=0, le=1000.0)] = 0.0
    """Weight of the KL term against the starting policy; only with `estimator="grpo"`."""
    save_every: Count = 10
    """Updates between checkpoints; the last update is always saved."""
    keep_checkpoints: Count = 2
    keep_optimizer: bool = False
    """Whether the checkpoints of a finished run keep the optimizer's state, two thirds of them."""
    bf16: bool = False
    """Whether the forward pass autocasts to bfloat16; weights and optimizer stay float32."""
    gradient_checkpointing: bool = False
    """Whether to recompute activations: saves memory for a second forward pass."""
    lora: Mapping[str, Any] | None = None
    """`{rank: 16, alpha: 32, targets: all-linear}` trains LoRA's matrices in place of the weights;
    what is left out has these values. Targets may be a list of modules, such as `q_proj`."""

    def __post_init__(self) -> None:
        if self.lora is not None:
            self.lora = adapters.read(self.lora)
        if self.schedule == "constant" and self.warmup_steps:
            raise ConfigError(
                f"trainer.warmup_steps={self.warmup_steps} is not allowed: give 0, or another "
                "schedule: 'constant' has no warm-up, 'constant_with_warmup' has."
            )

    def train(self, job: TrainJob) -> TrainResult:
        self.check(job.loss, correction=job.correction, sampling=job.sampling)
        from gfcr.train.loading import load_policy, memory_told, quiet_transformers
        from gfcr.train.ranks import Order, joined

        ranks = joined()
        if not ranks.leads:
            raise ConfigError(
                f"process {ranks.rank} of {ranks.size} was to train by itself: of processes that "
                "are launched together the first alone does; use `accelerate launch -m gfcr run`."
            )
        found = checkpoint.resume(job.folder, source=job.source, keep=self.keep_checkpoints)
        resumed = checkpoint.step_of(found) if found else 0
        if found and resumed >= self.max_steps:
            with quiet_transformers(), memory_told():
                policy = (
                    adapters.load(job.model, checkpoint=found) if self.lora else load_policy(found)
                )
                self._feed(job).sync(policy, version=resumed)
        else:
            order = Order(train=self.run, job=job, found=found)
            if ranks.size > 1:
                ranks.tell(order.told())
            order()
        last = model = checkpoint.newest(job.folder)
        assert last, "training ends with a checkpoint"
        if self.lora:
            merged = job.folder / adapters.MERGED
            with quiet_transformers(), memory_told():
                model = adapters.save_merged(job.model, checkpoint=last, folder=merged)
        return TrainResult(updates=checkpoint.step_of(last), resumed_from=resumed, model=str(model))

    def run(self, job: TrainJob, *, found: Path | None) -> None:
        """Trains, with every process that trains together calling it.

        Args:
            job: see `train`; only rank 0's has a source.
            found: the checkpoint to resume from, or None.
        """
        from gfcr.train.loading import memory_told, quiet_transformers

        with quiet_transformers(), memory_told():
            self._feed(job).run(self._trainer(job), resume_from=found)

    def _feed(self, job: TrainJob) -> "Feed":
        from gfcr.train.ranks import joined
        from gfcr.train.seam import Feed

        return Feed(
            job,
            steps=self.steps,
            save_every=self.save_every,
            keep_checkpoints=self.keep_checkpoints,
            ranks=joined(),
        )

    @property
    def steps(self) -> Steps:
        """The passes and optimizer steps of an update."""
        return Steps(
            micro_batches=self.micro_batches,
            mini_batches=self.mini_batches,
            iterations=self.iterations,
        )

    def finished(self, folder: Path) -> None:
        if not self.keep_optimizer:
            checkpoint.drop_optimizers(folder)

    def check(self, loss: Loss, *, correction: Correction | None, sampling: Sampling) -> None:
        """See `TrainerConfig.check`. Checks the optimizer's name too."""
        check_optimizer(self.optimizer)
        if self.beta and loss.estimator != "grpo":
            raise ConfigError(
                f"trainer.beta={self.beta!r} has no effect with loss.estimator={loss.estimator!r} "
                "(a KL is part of grpo's loss alone): set trainer.beta=0 or estimator='grpo'."
            )
        check_estimator(loss, correction=correction)
        if sampling.temperature == 0:
            raise ConfigError(
                "sampling.temperature=0 is not allowed in training: greedy rollouts have no "
                "log-probs to take a gradient of. Give a temperature > 0."
            )
        cut = sampling.top_p < 1 or sampling.top_k > 0 or sampling.min_p > 0
        if cut and (loss.off_policy == "behaviour" or (correction and correction.weighs_gaps)):
            raise ConfigError(
                "a correction that weighs ratios, or loss.off_policy='behaviour', compares "
                "log-probs of the whole vocabulary with those sampled under "
                f"top_p={sampling.top_p}, top_k={sampling.top_k}, min_p={sampling.min_p}, which "
                "biases the ratio: use sampling.top_p=1, top_k=0 and min_p=0, or leave it out."
            )

    def _trainer(self, job: TrainJob) -> Any:
        from gfcr.train.loading import placeholder
        from gfcr.train.seam import SeamMixin

        kind, config = classes(job.loss.estimator)
        rows = self.micro_batches * self.mini_batches
        try:
            args = config(**self._settings(job))
        except ValueError as error:
            raise ConfigError(f"TRL does not allow these trainer settings: {error}") from error
        args._n_gpu = min(args.n_gpu, 1)  # else each pass is spread over all GPUs that are seen
        if args.world_size != place().size:
            raise ConfigError(
                f"{place().size} processes were launched, of which accelerate sees "
                f"{args.world_size}: give `distributed_type: MULTI_GPU` or `FSDP` in its "
                "configuration, also on a CPU."
            )
        seam: Any = type(f"Seam{kind.__name__}", (SeamMixin, kind), {})
        trainer = self.adapted(
            seam,
            model=job.model,
            **({"reward_funcs": _never} if job.loss.estimator in ONLINE else {}),
            args=args,
            train_dataset=placeholder(rows=rows * args.world_size, estimator=job.loss.estimator),
            processing_class=tokenizer_of(job.model, padding_side="left"),
        )
        vouch(trainer)
        if self.lora:
            job.say(adapters.share(trainer.model))
        return trainer

    def adapted(self, kind: Any, *, args: Any, **given: Any) -> Any:
        """Makes a TRL trainer, with LoRA adapters if `lora` is set.

        Raises:
            ConfigError: the model lacks the target modules, or has one that cannot be adapted.
        """
        if self.lora is None:
            return kind(args=args, **given)
        asked = adapters.peft_config(self.lora)
        try:
            trainer = kind(args=args, peft_config=asked, **given)
        except ValueError as error:
            raise ConfigError(
                f"trainer.lora={self.lora} is not allowed for this model: {error}"
            ) from error
        adapters.check_mergeable(trainer.model)
        base = trainer.model.get_base_model()
        adapters.check_targets(self.lora, modules=dict(base.named_modules()))
        return trainer

    def arguments(self, *, folder: Path, seed: int, sampling: Sampling) -> dict[str, Any]:
        """Returns these settings as arguments of TRL's online trainers."""
        return {
            **self._common(folder=folder, seed=seed),
            "num_iterations": self.iterations,
            "steps_per_generation": self.micro_batches * self.mini_batches,
            "beta": self.beta,
            "temperature": sampling.temperature,
            "max_completion_length": sampling.max_tokens,
            "disable_dropout": True,  # the engine samples without
        }

    def _common(self, *, folder: Path, seed: int) -> dict[str, Any]:
        import torch

        same = "learning_rate adam_beta2 weight_decay max_grad_norm bf16 gradient_checkpointing"
        return {
            "output_dir": str(folder),
            "seed": seed,
            "max_steps": self.max_steps * self.steps.number,
            **{name: getattr(self, name) for name in same.split()},
            "router_aux_loss_coef": 0.0,  # it is of a pass, whatever rows that has
            "lr_scheduler_type": self.schedule,
            "warmup_steps": self.warmup_steps * self.steps.number,
            "optim": self.optimizer,
            "use_cpu": not torch.cuda.is_available(),  # else bf16 is refused without a GPU
            "model_init_kwargs": {"dtype": "float32"},
            "gradient_accumulation_steps": self.micro_batches,
            "save_strategy": "no",
            "logging_steps": self.steps.number,
            # Else transformers logs a mean in place of a loss that is NaN, and nobody is told.
            "logging_nan_inf_filter": False,
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            "ddp_find_unused_parameters": False,
            "log_level_replica": "error",
        }

    def _settings(self, job: TrainJob) -> dict[str, Any]:
        """Returns TRL's settings, by which an epoch of the placeholder dataset is one update."""
        loss, own = job.loss, job.loss.of_trl()
        clips = {key: own[key] for key in ("epsilon", "epsilon_high")}
        if loss.estimator in ONLINE:
            return {
                **self.arguments(folder=job.folder, seed=job.seed, sampling=job.sampling),
                # TRL allows no fewer than two generations, and batches of whole groups alone.
                "per_device_train_batch_size": 2,
                "num_generations": 2,
                "shuffle_dataset": False,
                **(own if loss.estimator == "grpo" else clips),
            }
        paired = {"beta": loss.beta, "disable_dropout": True} if loss.estimator == "dpo" else {}
        common = self._common(folder=job.folder, seed=job.seed)
        return common | paired | {"per_device_train_batch_size": 1, "max_length": None}


def classes(estimator: str) -> tuple[Any, Any]:
    """Returns TRL's trainer class and configuration class of an estimator."""
    # Quietly: TRL names the vLLM versions its own generation supports, which the seam does not use.
    load([f"trl.trainer.{estimator}_trainer"])
    trl, name = import_module("trl"), estimator.upper()
    return getattr(trl, f"{name}Trainer"), getattr(trl, f"{name}Config")


def utils() -> Any:
    """Returns TRL's module of functions that its trainers log with."""
    return import_module("trl.trainer.utils")


def _never(**_: Any) -> list[float]:
    raise AssertionError("TRL was about to score completions of its own")
