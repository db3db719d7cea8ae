"""Foretells the memory and disk that a run's model takes, from the shapes of its tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from gfcr import models
from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.experiment.resolved import Resolved, resolve
from gfcr.train.adapters import check_targets, is_target

GIB: Final = 2**30
_MOMENTS: Final = {"adafactor": 0, "sgd": 0, "lion": 1, "rmsprop": 1, "adagrad": 1}
"""Moments that optimizers keep of each parameter, by a part of their names; others keep two."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a run's model takes, in bytes; what passes keep and the engine's cache come on top."""

    parameters: int
    """Number of parameters of the model."""
    trained: int
    """Number of parameters that are trained: all, or those of LoRA's matrices."""
    weights: int
    """Weights in the trainer: the policy's, its adapters' and its reference's, in float32."""
    moments: int
    """The optimizer's state."""
    served: int
    """Weights in the engine."""

    @property
    def gradients(self) -> int:
        """Bytes of the gradients, in float32."""
        return 4 * self.trained

    @property
    def adapted(self) -> bool:
        """Returns whether LoRA trains matrices beside the weights."""
        return self.trained < self.parameters


def size_here(config: Experiment) -> str:
    """Returns the size of an experiment's run; empty too where its model is not on this machine."""
    model, resolved = model_here(config), resolve(config)
    return size_of(resolved, model=model) if model and resolved.engine.needs_model else ""


def model_here(config: Experiment) -> str | None:
    """Returns the folder of an experiment's model; None where it is not on this machine."""
    try:
        model = models.here(config.model)
    except ConfigError:  # a folder of another machine: there it is, and the run says if it is not
        return None
    return model and str(model)


def size_of(resolved: Resolved, *, model: str) -> str:
    """Returns the size of a run in one line; empty where it has none, see `weigh`."""
    if (size := weigh(resolved, shapes=shapes_of(model))) is None:
        return ""
    whole, given = 4 * size.parameters / GIB, getattr(resolved.engine, "kv_cache_gib", None)
    trained = (size.weights + size.gradients + size.moments) / GIB
    cache = f"its cache {given or 1.0:.1f} GiB" + ("" if given else " (on a CPU)")
    kept = getattr(resolved.trainer, "keep_optimizer", False)
    ended = "" if kept else f", {whole:.1f} once it has ended"
    full = f"{whole + size.moments / GIB:.1f} GiB{ended}"
    return (
        f"size: {size.parameters / 1e6:,.0f} million parameters; memory for trainer {trained:.1f}, "
        f"engine {size.served / GIB:.1f} and {cache}, and more for each pass; a checkpoint: "
        f"{'adapters alone' if size.adapted else full}"
    )


def weigh(resolved: Resolved, *, shapes: Mapping[str, Sequence[int]]) -> Size | None:
    """Returns the size of a run; None where no model is trained or it has no safetensors.

    Weights, gradients and the optimizer's moments, in float32 or as many bits as its name says, are
    the trainer's; with LoRA gradients and moments are those of its matrices alone.
    """
    trainer, count = resolved.trainer, sum(map(prod, shapes.values()))
    if not count or not trainer.needs_model or not resolved.engine.needs_model:
        return None
    lora = getattr(trainer, "lora", None)
    added = _adapters(shapes, lora=lora) if lora else 0
    referred = resolved.strategy.estimator == "dpo" or getattr(trainer, "beta", 0.0)
    copies = 1 if lora or not referred else 2
    optimizer = getattr(trainer, "optimizer", "")
    moments = next((num for name, num in _MOMENTS.items() if name in optimizer), 2)
    bits = next((bits for bits in (4, 8) if f"{bits}bit" in optimizer), 32)
    dtype = getattr(resolved.engine, "dtype", "float32")
    return Size(
        parameters=count,
        trained=added or count,
        weights=4 * (copies * count + added),
        moments=moments * bits * (added or count) // 8,
        served=(4 if dtype == "float32" else 2) * count,
    )


def shapes_of(model: str) -> dict[str, Sequence[int]]:
    """Returns the shapes of a model folder's tensors, by name, of the files transformers reads."""
    from safetensors import safe_open

    opened: Any = safe_open
    found: dict[str, Sequence[int]] = {}
    for file in models.weight_files(Path(model)):
        with opened(file, framework="numpy") as held:
            found |= {name: held.get_slice(name).get_shape() for name in held.keys()}  # noqa: SIM118
    return found


def _adapters(shapes: Mapping[str, Sequence[int]], *, lora: Mapping[str, Any]) -> int:
    """Returns the parameters of LoRA's matrices: rank x (inputs + outputs) of each adapted one."""
    matrices = {
        name.removesuffix(".weight"): sum(shape)
        for name, shape in shapes.items()
        if len(shape) == 2
    }
    check_targets(lora, modules=matrices)
    adapted = (size for name, size in matrices.items() if is_target(name, targets=lora["targets"]))
    return lora["rank"] * sum(adapted)
