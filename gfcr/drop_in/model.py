"""Saves the model object of a script in a folder, because engines start from folders."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gfcr.errors import ConfigError
from gfcr.process.tokenizer import tokenizer_of


def refused(model: Any) -> str | None:
    """Returns why a model cannot be trained here, and what to do; None where it can."""
    from transformers import PreTrainedModel

    kind: Any = PreTrainedModel
    if isinstance(model, str | Path):
        return None
    name = type(model).__name__
    if hasattr(model, "peft_config"):
        return f"model={name} has adapters: merge_and_unload them, and give peft_config"
    if not isinstance(model, kind):
        return f"model={name}: give a folder, a Hub id, a demo model or a transformers model"
    config: Any = model.config
    if getattr(model, "is_quantized", False) or getattr(config, "quantization_config", None):
        return f"model={name} is quantized, and the engine is given whole weights: load it without"
    if hasattr(config, "vision_config"):
        return f"model={name} reads images: only models of text are trained here"
    return None


def saved(model: Any, *, tokenizer: Any, beside: str) -> "TemporaryDirectory[str]":
    """Saves a model with a tokenizer in a temporary folder, which the returned object deletes.

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
    folder = TemporaryDirectory(prefix=".model-", dir=beside)
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
