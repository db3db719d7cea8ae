"""Draft weights made for an audit: good enough to be right often, bad enough to be wrong often."""

from pathlib import Path
from typing import Any, Final

from gfcr.certificate.cell import Prompts

NOISE: Final = 0.15
"""Of the weights, in standard deviations of each tensor of the target."""


def make(drafter: str, *, target: Path, prompts: Prompts, folder: Path) -> Path:
    """Makes weights for the drafter of this name in a folder and returns it.

    Args:
        drafter: its name in the registry; all but `eagle3` are taken to be small models.
        target: folder of the model that it drafts for.
        prompts: like those that it will meet.
        folder: for the weights.
    """
    if drafter == "eagle3":
        from gfcr.audit import eagle3_head

        return eagle3_head.train(target, prompts=list(map(tuple, prompts.prompts)), folder=folder)
    return noisy(target, folder=folder)


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
