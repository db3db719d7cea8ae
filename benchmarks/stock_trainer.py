"""TRL's own GRPOTrainer with TRL's own vLLM: what strategies are timed against."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any, final

from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.handles.prompts import as_asked
from gfcr.loop.scoring import verify_safely
from gfcr.process.tokenizer import tokenizer_of
from gfcr.tasks.base import Codec, Task
from gfcr.tracking.curve import floored, reached
from gfcr.train.loading import quiet_transformers
from gfcr.train.trl import Trl, classes
from gfcr.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class StockJob:
    """One run of stock TRL, on the task, model and settings of an experiment."""

    config: Experiment
    task: Task
    trainer: Trl
    model: str
    """Its folder."""
    codec: Codec
    train: Sequence[Prompt]
    heldout: Sequence[Prompt]
    group_size: int
    folder: Path
    engine: dict[str, Any]
    """Arguments of `vllm.LLM` that TRL has no settings for: memory, precision, block size."""
    target: float
    """Held-out reward at which training ends, once two evaluations are there: `curve.reached`."""

    def score(self, prompt: Prompt, tokens: Sequence[int]) -> float | None:
        """The reward of a completion; None where it cannot be scored."""
        return verify_safely(self.task, prompt, self.codec.decode(tokens)).reward


@dataclass(kw_only=True)
class StockCourse:
    """What a run went through. Seconds run from the first update, evaluations left out."""

    curve: list[tuple[int, int, float, float]] = field(
        default_factory=list[tuple[int, int, float, float]]
    )
    """(update, generated tokens, seconds, held-out reward)."""
    tokens: int = 0
    aside_s: float = 0.0
    began: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return time.perf_counter() - self.began - self.aside_s


def train(job: StockJob, *, watch: Callable[[str], None] = lambda line: None) -> StockCourse:
    """Trains as a TRL script does: `GRPOTrainer(use_vllm=True, vllm_mode="colocate")`.

    The loss, advantages, sampler, importance weights, padding and weight transfer are TRL's, with
    TRL's defaults. What an experiment says of learning rate, optimizer, micro-batches, prompts an
    update, group size, sampling and engine is taken over. vLLM must have been repaired before
    (`engine.vllm.repair`): stock TRL does not run on an unrepaired vLLM on CPU.

    Raises:
        ConfigError: the rollouts of an update do not come out even in micro-batches.
    """
    course = StockCourse()
    with quiet_transformers(), _engine_settings(job.engine):
        trainer = _trainer(job, course=course)
        trainer.add_callback(_callback(job, course=course, trainer=trainer, watch=watch))
        trainer.train()
    return course


def _trainer(job: StockJob, *, course: StockCourse) -> Any:
    from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs]
    from transformers import PrinterCallback

    kind, config = classes("grpo")
    by_id = {prompt.id: prompt for prompt in job.train}

    def reward(completion_ids: list[list[int]], problem: list[str], **_: Any) -> list[float | None]:
        course.tokens += sum(map(len, completion_ids))
        return [
            job.score(by_id[p], tokens) for p, tokens in zip(problem, completion_ids, strict=True)
        ]

    tokenizer = tokenizer_of(job.model, padding_side="left")
    chat = tokenizer.chat_template is not None
    columns = {
        "prompt": [asked_of(p, chat=chat) for p in job.train],
        "problem": [p.id for p in job.train],
    }
    dataset: Any = Dataset
    trainer = job.trainer.adapted(
        kind,
        model=job.model,
        reward_funcs=reward,
        args=config(**_arguments(job)),
        train_dataset=dataset.from_dict(columns),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def asked_of(prompt: Prompt, *, chat: bool) -> Any:
    """Returns a prompt as TRL takes it: as turns where it has some, or the model a template."""
    asked = as_asked(prompt)
    return [{"role": "user", "content": asked}] if chat and isinstance(asked, str) else asked


def _arguments(job: StockJob) -> dict[str, Any]:
    steps = job.trainer.steps
    passes = steps.micro_batches * steps.mini_batches
    prompts, sampling = job.config.prompts, job.config.sampling
    size, rest = divmod(prompts * job.group_size, passes)
    if rest:
        raise ConfigError(
            f"{prompts} prompts x {job.group_size} rollouts are no multiple of "
            f"trainer.micro_batches={steps.micro_batches} x trainer.mini_batches="
            f"{steps.mini_batches}, as TRL needs: change one of them."
        )
    shared = job.trainer.arguments(folder=job.folder, seed=job.config.seed, sampling=sampling)
    return shared | {
        "per_device_train_batch_size": size,
        "num_generations": job.group_size,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "use_vllm": True,
        "vllm_mode": "colocate",
    }


@contextmanager
def _engine_settings(settings: dict[str, Any]) -> Generator[None]:
    """TRL writes its `LLM(...)` call out and lets nobody add to it."""
    from trl.generation import vllm_generation as module

    holder: Any = module
    stock = holder.LLM

    def with_settings(**given: Any) -> Any:
        return stock(**(given | settings))

    holder.LLM = with_settings
    try:
        yield
    finally:
        holder.LLM = stock


def mean_of(rewards: Sequence[float | None], *, bounds: tuple[float, float] | None) -> float:
    """Returns the mean of rewards, in which one that nobody could give is the lowest there is.

    Args:
        rewards: of all answers; None is one that nobody could score.
        bounds: of the task's rewards, if it declares any.
    """
    scored = [reward for reward in rewards if reward is not None]
    mean = fmean(scored) if scored else nan
    told = {
        "reward_range": (bounds[0] if bounds and isfinite(bounds[0]) else None, None),
        "curve": [(0, 0, 0.0, mean)],
        "unscorable": [len(rewards) - len(scored)],
        "heldout": {"asked": {"prompts": len(rewards), "samples": 1}},
    }
    return floored(told)[0][3]


def _callback(
    job: StockJob, *, course: StockCourse, trainer: Any, watch: Callable[[str], None]
) -> Any:
    from transformers import TrainerCallback

    def measure(update: int) -> None:
        began = time.perf_counter()
        engine = trainer.vllm_generation
        engine.sync_weights()
        _, completions, *_ = engine.generate(
            [list(p.tokens) for p in job.heldout], images=None, num_generations=1
        )
        rewards = [job.score(p, ids) for p, ids in zip(job.heldout, completions, strict=True)]
        accuracy = mean_of(rewards, bounds=job.task.reward_range)
        course.aside_s += time.perf_counter() - began
        course.curve.append((update, course.tokens, course.seconds, accuracy))
        watch(f"update {update}: {course.tokens:,} tokens, held-out {accuracy:.3f}")

    every = job.config.evaluation.every or job.trainer.max_steps
    most = job.config.budget.generated_tokens

    @final
    class Follow(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            course.began = time.perf_counter()
            measure(0)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            update, within = divmod(int(state.global_step), job.trainer.steps.number)
            if within:
                return
            spent = most is not None and course.tokens >= most
            due = update % every == 0 or spent or update >= job.trainer.max_steps
            if due:
                measure(update)
                there = reached(course.curve, target=job.target)
                # The evaluation after it has to confirm it.
                if spent or there not in (None, course.curve[-1]):
                    control.should_training_stop = True

    return Follow()
