"""Draft weights made for an audit: right often enough, and wrong often enough, to be tested."""

from pathlib import Path
from typing import Any, Final

NOISE: Final = 0.15
"""Noise on each weight tensor, in standard deviations of the target's tensor."""


def noisy(target: Path, *, folder: Path) -> Path:
    """Saves the target with noise on its matrices, as a draft model or an older policy.

    It has the target's size: it saves no time, and an audit needs none saved.
    """
    import torch
    from transformers import AutoModelForCausalLM

    library: Any = torch
    loader: Any = AutoModelForCausalLM
    draft = loader.from_pretrained(str(target), dtype=library.float32)
    generator = library.Generator().manual_seed(0)
    with library.no_grad():
        for parameter in draft.parameters():
            if parameter.dim() > 1:
                noise = library.randn(parameter.shape, generator=generator)
                parameter.add_(NOISE * parameter.std() * noise)
    draft.save_pretrained(folder)
    return folder
