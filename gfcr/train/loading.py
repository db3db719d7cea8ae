"""Loading of models, and the placeholder dataset that TRL wants to see."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset  # pyright: ignore[reportMissingTypeStubs]
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from gfcr.errors import GfcrError


@contextmanager
def quiet_transformers() -> Generator[None]:
    """Hides transformers' progress bars, and its warnings on vLLM's process group."""
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
    """Replaces PyTorch's out-of-memory error by one that says what to change.

    Raises:
        GfcrError: the GPU's memory is not enough.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise GfcrError(
            f"the GPU's memory is not enough: {str(error).partition('. GPU')[0]}. Give more "
            "trainer.micro_batches, trainer.gradient_checkpointing=true, trainer.bf16=true, "
            "trainer.lora={}, engine.sleep=1, less engine.gpu_memory_utilization, or a smaller "
            "model: docs/gpu.md says who needs what."
        ) from error


def load_policy(folder: Path) -> nn.Module:
    """Loads the policy of a checkpoint in float32."""
    factory: Any = AutoModelForCausalLM
    # In bfloat16 a step of less than 1/512 of a weight is always rounded away.
    return factory.from_pretrained(folder, dtype=torch.float32)


def placeholder(*, rows: int, estimator: str) -> Any:
    """Makes a dataset of rows that nothing reads: batches come from the source."""
    factory: Any = Dataset
    columns = ("prompt", "completion", "chosen", "rejected")
    wanted = {"sft": columns[:2], "dpo": (columns[0], *columns[2:])}.get(estimator, columns[:1])
    return factory.from_dict({name: ["-"] * rows for name in wanted})
