"""What is given to `gfcr.drop_in.GRPOTrainer`: its arguments are checked, its model is saved."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from gfcr.drop_in import settings
from gfcr.engine.vllm_model import open_folder
from gfcr.errors import ConfigError, did_you_mean, shortened
from gfcr.process.tokenizer import tokenizer_of
from gfcr.strategy import Strategy
from gfcr.train import adapters
from gfcr.train.base import Steps

PASSED_ON: Final = (
    "eval_dataset",
    "processing_class",
    "reward_processing_classes",
    "callbacks",
    "peft_config",
)
"""The keywords that are passed on to TRL's trainer as they are."""

NOT_OURS: Final[Mapping[str, str]] = {
    "rollout_func": "the strategy makes the rollouts",
    "tools": "use a strategy with a tool, such as multi_turn",
    "environment_factory": "use a strategy with the part episode, in an experiment",
    "quantization_config": "the engine is given whole weights",
    "optimizers": "the trainer loads the model, so no optimizer can hold its parameters yet: "
    "give GRPOConfig(optim=..., lr_scheduler_type=...)",
}
"""The keywords that TRL takes and this trainer refuses, and why."""


def check(
    *,
    model: Any,
    reward_funcs: Any,
    args: Any,
    dataset: Any,
    strategy: Strategy,
    others: Mapping[str, Any],
) -> None:
    """Checks all arguments of a trainer.

    Raises:
        ConfigError: arguments do not fit a strategy, or would be ignored; names all of them.
    """
    from gfcr.train.trl import classes

    wrong = [*_model(model), *_rewards(reward_funcs), *_others(others)]
    config = classes("grpo")[1]
    if not isinstance(args, config):
        wrong.append(f"args={type(args).__name__}: give a GRPOConfig")
        wrong += _dataset(dataset, name="train_dataset", rows=1)
    else:
        wrong += settings.refused(args, strategy=strategy)
        wrong += _dataset(dataset, name="train_dataset", rows=prompts_of(args))
    refuse(wrong, strategy=strategy)


def refuse(wrong: Sequence[str], *, strategy: Strategy) -> None:
    """Raises a ConfigError that names all that is wrong, if anything is."""
    if wrong:
        raise ConfigError(
            f"gfcr.drop_in.GRPOTrainer with strategy '{strategy.name}': {'; '.join(wrong)}."
        )


def check_loaded(trainer: Any, *, folder: str) -> None:
    """Checks that trainer and engine have the same model, tokenizer and limits of length.

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
    context = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None)
    if context is not None and trainer.args.max_completion_length >= context:
        wrong.append(
            f"max_completion_length={trainer.args.max_completion_length}, and the model has room "
            f"for {context} tokens, prompt and completion together"
        )
    if wrong:
        raise ConfigError(f"gfcr.drop_in.GRPOTrainer: {'; '.join(wrong)}.")


def _tokenizer(tokenizer: Any, *, folder: str) -> Iterator[str]:
    own: Any = tokenizer_of(folder)
    if tokenizer.get_vocab() != own.get_vocab():
        yield f"processing_class has another vocabulary than the tokenizer in {folder}"
    elif any(getattr(tokenizer, name, None) for name in ("response_template", "response_schema")):
        yield (
            "processing_class parses answers (response_template, response_schema), and reward "
            "functions are given their text: set both to None"
        )
    elif tokenizer.eos_token_id not in (ends := open_folder(folder).eos):
        yield (
            f"processing_class ends with token {tokenizer.eos_token_id}, and the engine, by the "
            f"files in {folder}, with {', '.join(map(str, ends))}: save model and tokenizer with it"
        )


def saved(model: Any, *, tokenizer: Any, beside: str) -> "TemporaryDirectory[str]":
    """Saves a model with a tokenizer in a temporary folder, which the returned object deletes.

    Engines start from folders.

    Args:
        model: of transformers; its weights as they are now.
        tokenizer: None takes that of the model's `config.name_or_path`, as TRL does.
        beside: the folder is made in here, where checkpoints of the same size have room.

    Raises:
        ConfigError: no tokenizer was given, and none is found.
    """
    if tokenizer is None:
        origin = str(model.config.name_or_path)
        if not origin:
            raise ConfigError(
                f"model={type(model).__name__} was made from no folder and no Hub id, so that its "
                "tokenizer is not known: give processing_class."
            )
        tokenizer = tokenizer_of(origin, padding_side="left")
    Path(beside).mkdir(parents=True, exist_ok=True)
    # What begins so is left out where transformers push the folder to the Hub.
    folder = TemporaryDirectory(prefix="_model-", dir=beside)
    model.save_pretrained(folder.name)
    tokenizer.save_pretrained(folder.name)
    return folder


@contextmanager
def known_as(model: Any, *, folder: str) -> Generator[None]:
    """Lets the model's config name the folder for a while: TRL loads its reference from there."""
    config = model.config
    before, config.name_or_path = config.name_or_path, folder
    try:
        yield
    finally:
        config.name_or_path = before


def prompts_of(args: Any) -> int:
    """Returns the number of prompts that an update trains on."""
    rollouts: int = args.per_device_train_batch_size * args.steps_per_generation
    return max(1, rollouts // args.num_generations)


def steps_of(args: Any) -> Steps:
    """Returns the passes and optimizer steps of a batch of rollouts, an update of gfcr."""
    passes: int = args.gradient_accumulation_steps
    return Steps(
        micro_batches=passes,
        mini_batches=args.steps_per_generation // passes,
        iterations=args.num_iterations,
    )


def _model(model: Any) -> Iterator[str]:
    """Names what is first wrong with a model."""
    from transformers import PreTrainedModel

    kind: Any = PreTrainedModel
    if isinstance(model, str | Path):
        return
    name, config = type(model).__name__, getattr(model, "config", None)
    if hasattr(model, "peft_config"):
        yield f"model={name} has adapters: merge_and_unload them, and give peft_config"
    elif not isinstance(model, kind):
        yield f"model={name}: give a folder, a Hub id, a demo model or a transformers model"
    elif getattr(model, "is_quantized", False) or getattr(config, "quantization_config", None):
        yield f"model={name} is quantized, and the engine is given whole weights: load it without"
    elif hasattr(config, "vision_config"):
        yield f"model={name} reads images: only models of text are trained here"


def _rewards(given: Any) -> Iterator[str]:
    functions = cast("list[Any]", given) if isinstance(given, list) else [given]
    if given is None or not functions:
        yield "reward_funcs: give at least one, for nothing else scores"
        return
    for each in functions:
        if not callable(each) and not isinstance(each, str):
            kind = type(each).__name__
            yield f"reward_funcs: {kind} is neither a function nor a reward model nor its name"


def _others(others: Mapping[str, Any]) -> Iterator[str]:
    for key, given in others.items():
        if given is None or (isinstance(given, tuple) and given == (None, None)):
            continue
        if key == "eval_dataset":
            yield from _evaluated(given)
        elif key == "peft_config" and (about := adapters.refused(given)):
            yield about
        elif key not in PASSED_ON:
            why = NOT_OURS.get(key) or "unknown." + did_you_mean(key, (*PASSED_ON, *NOT_OURS))
            yield f"{key}: {why}"


def _evaluated(given: Any) -> Iterator[str]:
    from datasets import IterableDataset  # pyright: ignore[reportMissingTypeStubs]

    splits = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given}
    for split, dataset in splits.items():
        name = f"eval_dataset[{split!r}]" if split else "eval_dataset"
        streamed = isinstance(dataset, IterableDataset)  # which TRL's evaluation takes
        yield from _columns(dataset, name=name) if streamed else _dataset(dataset, name=name)


def _dataset(dataset: Any, *, name: str, rows: int = 1) -> Iterator[str]:
    """Names what is first wrong with a dataset."""
    from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs]

    kind: Any = Dataset
    if not isinstance(dataset, kind):
        advice = ", one of its splits" if hasattr(dataset, "keys") else " of known length"
        yield f"{name}={type(dataset).__name__}: give a datasets.Dataset{advice}"
    elif wrong := [*_columns(dataset, name=name)]:
        yield from wrong
    elif len(dataset) < rows:
        yield f"{name} has {len(dataset)} rows, and an update takes {rows} prompts"
    else:
        yield from _prompts(dataset["prompt"], name=name)


def _columns(dataset: Any, *, name: str) -> Iterator[str]:
    columns: list[str] | None = dataset.column_names
    if columns is None:  # a stream that names none
        return
    pictures = sorted({"image", "images"}.intersection(columns))
    if "prompt" not in columns:
        held = ", ".join(columns) or "none"
        yield f"{name} has no column `prompt` (it has {held}): rename_column makes one"
    elif pictures:
        yield f"{name} has {', '.join(pictures)}: prompts are text here"


def _prompts(prompts: Iterable[Any], *, name: str) -> Iterator[str]:
    for row, prompt in enumerate(prompts):
        if not _is_prompt(prompt):
            yield (
                f"{name}: the prompt of row {row} is {shortened(repr(prompt))}; give text, or "
                "messages with role and content"
            )
            return


def _is_prompt(given: Any) -> bool:
    """Returns whether it is text, or a conversation with at least a message."""
    if isinstance(given, str):
        return given != ""
    messages = cast("list[Any]", given) if isinstance(given, list) else []
    return bool(messages) and all(
        isinstance(each, dict) and {"role", "content"} <= each.keys() for each in messages
    )
