"""Draft weights made for an audit: good enough to be right often, bad enough to be wrong often."""

from pathlib import Path
from typing import Any, Final

NOISE: Final = 0.15
"""Of the weights, in standard deviations of each tensor of the target."""


def noisy(target: Path, *, folder: Path) -> Path:
    """The target with noise on every weight matrix: a draft model, or a policy of some updates ago.

    It is of the target's size: it saves no time, and an audit needs none saved.
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
