"""Foretells what of a run fits on one GPU, at each of the three times of an update.

docs/gpu.md shows the arithmetic, which is that of dense models of Llama's kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.experiment.prepared import prepare
from gfcr.experiment.resolved import Resolved, resolve
from gfcr.experiment.size import GIB, Size, model_here, shapes_of, weigh

_LLAMA: Final = ("q_proj", "k_proj", "up_proj", "embed_tokens")
"""Modules whose shapes tell what a pass takes."""
_TILE: Final = (4096, 32768)
"""Positions and vocabulary of the tile of logits that TRL computes at a time."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One way to run, with the bytes of each part and in use at each time."""

    lora: bool
    sleeps: bool
    bytes: Mapping[str, int]
    most: int
    """Most bytes in use at a time."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What an experiment needs of a GPU."""

    parameters: int
    gpu: int
    """Bytes of the GPU's memory."""
    longest: int
    """Tokens of the longest sequence."""
    tokens: int
    """Tokens of the largest pass, padding included."""
    token: int
    """Bytes that the KV cache has for a token."""
    cached: int
    """Number of tokens that the KV cache holds."""
    fits: Sequence[Fit]


def memory_of(config: Experiment, *, gpu: int) -> Memory:
    """Returns what an experiment needs of a GPU of so many bytes, with and without LoRA and sleep.

    Raises:
        ConfigError: the model is not here, is not of Llama's kind, or no model is trained.
        TaskError: there are no prompts, whose length is needed where the engine's is not given.
    """
    own, folder = resolve(config), model_here(config) or ""
    shapes = shapes_of(folder)
    if weigh(own, shapes=shapes) is None or not all(_rows(shapes, of=n) for n in _LLAMA):
        raise ConfigError(
            f"model={config.model}: memory is foretold for a model that is trained, whose folder "
            "is on this machine, and whose layers are of Llama's kind. Give model=FOLDER."
        )
    loras: tuple[Any, Any] = (None, config.trainer.get("lora") or {})
    ways = [resolve(replace(config, trainer={**config.trainer, "lora": lora})) for lora in loras]
    sizes = [size for way in ways if (size := weigh(way, shapes=shapes)) is not None]
    engine, served = ways[0].engine, sizes[0].served
    asked = getattr(engine, "kv_cache_gib", None)
    share = int(getattr(engine, "gpu_memory_utilization", 0.0) * gpu)
    cache = int(asked * GIB) if asked else max(0, share - served)
    if (longest := getattr(engine, "max_length", None)) is None:
        prompts = prepare(own, model=folder).problems.train
        longest = max(len(prompt.tokens) for prompt in prompts) + config.sampling.max_tokens
    tokens = _largest_pass(ways[0]) * longest
    token = 2 * sum(_rows(shapes, of="k_proj")) * (served // sizes[0].parameters)
    return Memory(
        parameters=sizes[0].parameters,
        gpu=gpu,
        longest=longest,
        tokens=tokens,
        token=token,
        cached=cache // token,
        fits=[
            _fit(size, sleeps=sleeps, cache=cache, a_pass=pass_of(way, shapes, tokens=tokens))
            for way, size in zip(ways, sizes, strict=True)
            for sleeps in ((False, True) if hasattr(engine, "sleep") else (False,))
        ],
    )


def pass_of(way: Resolved, shapes: Mapping[str, Sequence[int]], *, tokens: int) -> int:
    """Returns bytes that a pass of so many tokens takes on top of weights and their gradients.

    These are activations of all layers (with checkpointing the inputs of all, and those of one), a
    tile of logits, the output head's own gradient, and copies of weights in half precision.
    """
    trainer = way.trainer
    half, lora = (bool(getattr(trainer, key, False)) for key in ("bf16", "lora"))
    queries, keys, inner = (_rows(shapes, of=f"{key}_proj") for key in ("q", "k", "up"))
    vocabulary, hidden = next(s for name, s in shapes.items() if "embed_tokens" in name)
    count, width = len(queries), 2 if half else 4
    normed = 2 * (sum(queries) + sum(keys)) if _rows(shapes, of="q_norm") else 0
    layers = width * (6 * hidden * count + 4 * sum(queries) + 4 * sum(inner) + normed)
    if half:  # norms and what is added up stay float32
        layers += 14 * hidden * count + normed
    if getattr(trainer, "gradient_checkpointing", False):
        layers = 4 * hidden * count + layers // count
    tile = min(tokens, _TILE[0]) * _TILE[1] * width
    head = 0 if lora else 4 * vocabulary * hidden
    copies = 2 * sum(a * b for a, b in (s for s in shapes.values() if len(s) == 2)) if half else 0
    return tokens * (layers + 8 * hidden) + tile + head + copies


def _fit(size: Size, *, sleeps: bool, cache: int, a_pass: int) -> Fit:
    kept, engine = size.weights + size.moments, size.served + cache
    merged = 4 * size.parameters if size.adapted else 0
    times = {
        "generating": kept + engine,
        "syncing": kept + merged + (size.served if sleeps else engine),
        "training": kept + size.gradients + a_pass + (0 if sleeps else engine),
    }
    parts = {"weights": size.weights, "moments": size.moments, "gradients": size.gradients}
    held = {"a pass": a_pass, "served": size.served, "KV cache": cache}
    most = max(times.values())
    return Fit(lora=size.adapted, sleeps=sleeps, bytes={**parts, **held, **times}, most=most)


def _largest_pass(way: Resolved) -> int:
    """Returns the samples of a forward and backward pass, where no filter leaves any out."""
    steps, strategy = getattr(way.trainer, "steps", None), way.strategy
    parts = steps.micro_batches * steps.mini_batches if steps else 1
    return -(-way.config.prompts * strategy.generate.rollouts(strategy.group_size) // parts)


def _rows(shapes: Mapping[str, Sequence[int]], *, of: str) -> list[int]:
    """Returns the outputs of a module of that name in each layer."""
    return [shape[0] for name, shape in shapes.items() if name.endswith(f"{of}.weight")]
