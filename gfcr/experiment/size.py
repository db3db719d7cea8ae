"""Foretells the memory and disk that a run's model takes, from its number of parameters."""

from math import prod
from pathlib import Path
from typing import Any, Final

from gfcr import models
from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.experiment.resolved import Resolved, resolve

_GIB: Final = 2**30


def size_here(config: Experiment) -> str:
    """Returns the size of an experiment's run; empty too where its model is not on this machine."""
    resolved = resolve(config)
    if not resolved.engine.needs_model:
        return ""
    try:
        model = models.here(config.model)
    except ConfigError:  # a folder of another machine: there it is, and the run says if it is not
        return ""
    return size_of(resolved, model=str(model)) if model else ""


def size_of(resolved: Resolved, *, model: str) -> str:
    """Returns the size of a run in one line; empty where the model has no weights as safetensors.

    Weights, gradients and two moments of Adam in float32 are the trainer's; with LoRA weights
    alone, for adapters are small. What passes keep for their gradients comes on top: it depends on
    lengths, vocabulary and `trainer.micro_batches`.
    """
    count, trainer = _parameters(Path(model)), resolved.trainer
    if not count or not trainer.needs_model or not resolved.engine.needs_model:
        return ""
    whole, engine = 4 * count / _GIB, resolved.engine
    adapted = bool(getattr(trainer, "lora", None))
    trained = (1 if adapted else 4) * whole + bool(getattr(trainer, "beta", 0.0)) * whole
    served = whole if getattr(engine, "dtype", "float32") == "float32" else whole / 2
    given = getattr(engine, "kv_cache_gib", None)
    cache = f"its cache {given or 1.0:.1f} GiB" + ("" if given else " (on a CPU)")
    saved = "adapters alone" if adapted else f"{3 * whole:.1f} GiB, {whole:.1f} once it has ended"
    return (
        f"size: {count / 1e6:,.0f} million parameters; memory for trainer {trained:.1f}, engine "
        f"{served:.1f} and {cache}, and more for each pass; a checkpoint: {saved}"
    )


def _parameters(folder: Path) -> int:
    from safetensors import safe_open

    opened: Any = safe_open
    total = 0
    for file in sorted(folder.glob("*.safetensors")):
        with opened(file, framework="numpy") as held:
            total += sum(prod(held.get_slice(name).get_shape()) for name in held.keys())  # noqa: SIM118
    return total
