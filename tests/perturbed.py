"""Demo models as another processor would have made them: each weight a little off, by a seed."""

import os
import shutil
from pathlib import Path
from typing import Any

SCALES = (0.001, 0.01)
"""Of the noise, in standard deviations of a tensor: even seeds, odd seeds."""
VARIABLE = "GFCR_TEST_PERTURBED"
"""Holds the seed, for the random models that tests make themselves."""


def scale_of(seed: int) -> float:
    return SCALES[seed % 2]


def shift(named: dict[str, object], *, seed: int) -> None:
    """Adds noise to tensors by name, in place."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for _, weight in sorted(named.items()):
        assert isinstance(weight, torch.Tensor)
        noise = torch.randn(weight.shape, generator=generator)
        weight.add_(noise, alpha=scale_of(seed) * float(weight.std(correction=0)))


def shift_if_asked(model: Any) -> None:
    """Shifts a model that a test made itself, where the run's models are."""
    import torch

    if seed := os.environ.get(VARIABLE):
        with torch.no_grad():
            shift(dict(model.named_parameters()), seed=int(seed))


def copy(shipped: Path, *, folder: Path, seed: int) -> None:
    """Copies a folder of models with their weights shifted."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(shipped, folder)
    for file in sorted(folder.rglob("*.safetensors")):
        named = load_file(file)
        shift(named, seed=seed)
        save_file(named, file, metadata={"format": "pt"})


def use(seed: int, *, folder: Path) -> None:
    """Has this process, and those it starts, load perturbed models."""
    from gfcr import models

    if not folder.exists():
        copy(models.SHIPPED, folder=folder, seed=seed)
    os.environ.update({"GFCR_DEMO_MODELS": str(folder), VARIABLE: str(seed)})
