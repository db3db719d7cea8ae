"""Models, tokenizers and the dataset that TRL wants to see; transformers kept quiet about them."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs]
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from gfcr.errors import ConfigError, GfcrError


@contextmanager
def quiet_transformers() -> Generator[None]:
    """Keeps its bars, and its words on the process group that vLLM set up, off the terminal."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def memory_told() -> Generator[None]:
    """Says what to change where a GPU's memory is not enough.

    Raises:
        GfcrError: in the place of PyTorch's error.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise GfcrError(
            f"the GPU's memory is not enough: {str(error).partition('. GPU')[0]}. Give more "
            "trainer.micro_batches, trainer.gradient_checkpointing=true, trainer.bf16=true, "
            "trainer.lora={}, less engine.gpu_memory_utilization, or a smaller model: docs/gpu.md "
            "says who needs what."
        ) from error


def load_policy(folder: Path) -> nn.Module:
    """Loads the float32 policy of a checkpoint."""
    factory: Any = AutoModelForCausalLM
    return factory.from_pretrained(folder, dtype=torch.float32)


def load_tokenizer(model: str) -> Any:
    """Loads the tokenizer that TRL wants to see, although it tokenizes nothing here.

    Raises:
        ConfigError: there is none in the model folder.
    """
    factory: Any = AutoTokenizer
    try:
        return factory.from_pretrained(model, padding_side="left")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no tokenizer in model={model!r} ({error}): save one there with `save_pretrained`."
        ) from error


def placeholder(*, rows: int, estimator: str) -> Any:
    """A dataset of rows that nothing reads: batches come from the source."""
    factory: Any = Dataset
    columns = ("prompt", "completion", "chosen", "rejected")
    wanted = {"sft": columns[:2], "dpo": (columns[0], *columns[2:])}.get(estimator, columns[:1])
    return factory.from_dict({name: ["-"] * rows for name in wanted})
