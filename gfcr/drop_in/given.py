"""What `gfcr.drop_in.GRPOTrainer` is constructed with, looked at before anything is loaded."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from gfcr.drop_in import model as models
from gfcr.drop_in import settings
from gfcr.engine.vllm_model import open_folder
from gfcr.errors import ConfigError, did_you_mean, shortened
from gfcr.strategy import Strategy
from gfcr.train import adapters
from gfcr.train.base import Steps
from gfcr.train.loading import load_tokenizer

PASSED_ON: Final = (
    "eval_dataset",
    "processing_class",
    "reward_processing_classes",
    "callbacks",
    "peft_config",
)
"""Keywords that TRL's trainer is given as they are."""

NOT_OURS: Final[Mapping[str, str]] = {
    "rollout_func": "the strategy makes the rollouts",
    "tools": "use a strategy with a tool, such as multi_turn",
    "environment_factory": "use a strategy with the part episode, in an experiment",
    "quantization_config": "the engine is given whole weights",
    "optimizers": "the trainer loads the model, so no optimizer can hold its parameters yet: "
    "give GRPOConfig(optim=..., lr_scheduler_type=...)",
}
"""What TRL takes and this trainer does not, and why."""


def check(
    *,
    model: Any,
    reward_funcs: Any,
    args: Any,
    dataset: Any,
    strategy: Strategy,
    others: Mapping[str, Any],
) -> None:
    """Checks everything a trainer is constructed with.

    Raises:
        ConfigError: something cannot go with a strategy, or would be ignored; names all of it.
    """
    from gfcr.train.trl import classes

    about = models.refused(model)
    wrong = [*([about] if about else []), *_rewards(reward_funcs), *_others(others)]
    config = classes("grpo")[1]
    if not isinstance(args, config):
        wrong.append(f"args={type(args).__name__}: give a GRPOConfig")
        wrong += _dataset(dataset, name="train_dataset", rows=1)
    else:
        wrong += settings.refused(args, strategy=strategy)
        wrong += _dataset(dataset, name="train_dataset", rows=prompts_of(args))
    _refuse(wrong, strategy=strategy)


def check_args(args: Any, *, strategy: Strategy) -> None:
    """Checks a `GRPOConfig` alone.

    Raises:
        ConfigError: a setting would not be honoured; names all of them.
    """
    _refuse(settings.refused(args, strategy=strategy), strategy=strategy)


def _refuse(wrong: Sequence[str], *, strategy: Strategy) -> None:
    if wrong:
        raise ConfigError(
            f"gfcr.drop_in.GRPOTrainer with strategy '{strategy.name}': {'; '.join(wrong)}."
        )


def check_loaded(trainer: Any, *, folder: str) -> None:
    """Checks that trainer and engine mean the same by model, tokenizer and prompts.

    Raises:
        ConfigError: they do not.
    """
    adapters.check_mergeable(trainer.model)
    wrong: list[str] = []
    if trainer._is_vlm:
        wrong.append(f"{folder} reads images: only models of text are trained here")
    else:
        wrong += _tokenizer(trainer.processing_class, folder=folder)
    if getattr(trainer, "aux_loss_enabled", False):
        wrong.append("router_aux_loss_coef: the model's own is not 0; give 0")
    context = trainer.model.config.get_text_config().max_position_embeddings
    if trainer.args.max_completion_length >= context:
        wrong.append(
            f"max_completion_length={trainer.args.max_completion_length}, and the model has room "
            f"for {context} tokens, prompt and completion together"
        )
    if wrong:
        raise ConfigError(f"gfcr.drop_in.GRPOTrainer: {'; '.join(wrong)}.")


def _tokenizer(tokenizer: Any, *, folder: str) -> list[str]:
    own: Any = load_tokenizer(folder)
    if tokenizer.get_vocab() != own.get_vocab():
        return [f"processing_class has another vocabulary than the tokenizer in {folder}"]
    if any(getattr(tokenizer, name, None) for name in ("response_template", "response_schema")):
        return [
            "processing_class parses answers (response_template, response_schema), and reward "
            "functions are given their text: set both to None"
        ]
    ends = open_folder(folder).eos
    if tokenizer.eos_token_id not in ends:
        return [
            f"processing_class ends with token {tokenizer.eos_token_id}, and the engine, by the "
            f"files in {folder}, with {', '.join(map(str, ends))}: save model and tokenizer with it"
        ]
    return []


def prompts_of(args: Any) -> int:
    """Prompts an update trains on."""
    rollouts: int = args.per_device_train_batch_size * args.steps_per_generation
    return max(1, rollouts // args.num_generations)


def steps_of(args: Any) -> Steps:
    """Passes and optimizer steps of a batch of rollouts, which is an update of gfcr's."""
    passes: int = args.gradient_accumulation_steps
    return Steps(
        micro_batches=passes,
        mini_batches=args.steps_per_generation // passes,
        iterations=args.num_iterations,
    )


def _rewards(given: Any) -> list[str]:
    functions = cast("list[Any]", given) if isinstance(given, list) else [given]
    if given is None or not functions:
        return ["reward_funcs: give at least one, for nothing else scores"]
    return [
        f"reward_funcs: {type(f).__name__} is neither a function nor a reward model nor its name"
        for f in functions
        if not callable(f) and not isinstance(f, str)
    ]


def _others(others: Mapping[str, Any]) -> list[str]:
    wrong: list[str] = []
    for key, given in others.items():
        nothing = given is None or (isinstance(given, tuple) and given == (None, None))
        if key == "eval_dataset" and given is not None:
            wrong += _evaluated(given)
        if key == "peft_config" and (about := adapters.refused(given)):
            wrong.append(about)
        if nothing or key in PASSED_ON:
            continue
        known = (*PASSED_ON, *NOT_OURS)
        wrong.append(f"{key}: {NOT_OURS.get(key) or 'unknown.' + did_you_mean(key, known)}")
    return wrong


def _evaluated(given: Any) -> list[str]:
    from datasets import IterableDataset  # pyright: ignore[reportMissingTypeStubs]

    splits = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given}
    return [
        words
        for split, dataset in splits.items()
        for name in (f"eval_dataset[{split!r}]" if split else "eval_dataset",)
        for words in (
            _columns(dataset, name=name)  # TRL's evaluation takes those
            if isinstance(dataset, IterableDataset)
            else _dataset(dataset, name=name)
        )
    ]


def _dataset(dataset: Any, *, name: str, rows: int = 1) -> list[str]:
    from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs]

    kind: Any = Dataset
    if not isinstance(dataset, kind):
        advice = ", one of its splits" if hasattr(dataset, "keys") else " of known length"
        return [f"{name}={type(dataset).__name__}: give a datasets.Dataset{advice}"]
    if wrong := _columns(dataset, name=name):
        return wrong
    if len(dataset) < rows:
        return [f"{name} has {len(dataset)} rows, and an update takes {rows} prompts"]
    return _prompts(dataset["prompt"], name=name)


def _columns(dataset: Any, *, name: str) -> list[str]:
    columns: list[str] | None = dataset.column_names
    if columns is None:  # a stream that names none
        return []
    if "prompt" not in columns:
        held = ", ".join(columns) or "none"
        return [f"{name} has no column `prompt` (it has {held}): rename_column makes one"]
    pictures = sorted({"image", "images"}.intersection(columns))
    return [f"{name} has {', '.join(pictures)}: prompts are text here"] if pictures else []


def _prompts(prompts: Sequence[Any], *, name: str) -> list[str]:
    for row, prompt in enumerate(prompts):
        text = isinstance(prompt, str) and prompt != ""
        if not text and not _is_conversation(prompt):
            return [
                f"{name}: the prompt of row {row} is {shortened(repr(prompt))}; give text, or "
                "messages with role and content"
            ]
    return []


def _is_conversation(prompt: Any) -> bool:
    messages = cast("list[Any]", prompt) if isinstance(prompt, list) else []
    return bool(messages) and all(
        isinstance(each, dict) and {"role", "content"} <= each.keys() for each in messages
    )
