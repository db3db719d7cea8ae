"""LoRA: a policy trained through adapters, and its merged weights for the engine.

The one file that imports peft.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, final

from annotated_types import Interval, Len

from gfcr.errors import ConfigError, did_you_mean
from gfcr.process.tokenizer import tokenizer_of
from gfcr.values import plain
from gfcr.values.ranges import Checked, Count, Word

if TYPE_CHECKING:
    from torch import Tensor

    from gfcr.engine.base import Weights

ADAPTER: Final = "default"
"""PEFT's name of the adapter that is trained."""
_ADAPTED: Final = "peft_config"  # an attribute of the models that PEFT has wrapped
_BASE: Final = "base_model.model."
"""What PEFT puts before the names of a model's parameters."""
MERGED: Final = "merged"
"""Folder beside the checkpoints with the final policy, its adapters merged into the weights."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lora(Checked):
    """LoRA computes with W + alpha / rank x B A in place of W: A and B are trained, W is frozen.

    There is no dropout, since the engine samples without any.
    """

    rank: Count = 16
    alpha: Annotated[float, Interval(gt=0, le=1e6)] = 32.0
    targets: Literal["all-linear"] | Annotated[tuple[Word, ...], Len(1, 1000)] = "all-linear"
    """Modules to adapt: all linear layers but the output head, or module names such as `q_proj`."""


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `trainer.lora` with every value.

    Raises:
        ConfigError: unknown key, wrong type or out of range.
    """
    return asdict(Lora(**plain.merge(Lora, {}, given, where="trainer.lora")))


def peft_config(lora: Mapping[str, Any]) -> Any:
    """Returns the settings, as `read` has them, as PEFT's `LoraConfig`."""
    targets = lora["targets"]
    return import_module("peft").LoraConfig(
        r=lora["rank"],
        lora_alpha=lora["alpha"],
        lora_dropout=0.0,
        target_modules=targets if targets == "all-linear" else list(targets),
        task_type="CAUSAL_LM",
    )


def refused(config: Any) -> str | None:
    """Returns why a script's `peft_config` cannot be used, and what to do; None if it can."""
    if config is None or isinstance(config, import_module("peft").LoraConfig):
        return None
    return (
        f"peft_config={type(config).__name__}: give a peft.LoraConfig: the engine is given whole "
        "weights, and only LoRA's matrices are added to them here"
    )


def is_target(module: str, *, targets: str | Sequence[str]) -> bool:
    """Returns whether a linear layer is adapted: by its name, or by the end of it."""
    if targets == "all-linear":
        return module.rpartition(".")[2] not in ("embed_tokens", "lm_head")
    return any(f".{module}".endswith(f".{target}") for target in targets)


def check_targets(lora: Mapping[str, Any], *, modules: Collection[str]) -> None:
    """Checks that each target names a module: PEFT passes over those that it does not find.

    Raises:
        ConfigError: there is no such module; names the nearest.
    """
    for target in () if lora["targets"] == "all-linear" else lora["targets"]:
        if not any(is_target(module, targets=[target]) for module in modules):
            near = did_you_mean(target, sorted({name.rpartition(".")[2] for name in modules}))
            raise ConfigError(f"trainer.lora.targets: the model has no module {target!r}.{near}")


def check_mergeable(model: Any) -> None:
    """Checks that the adapters of a model can be merged into whole weights.

    Raises:
        ConfigError: something other than LoRA matrices of linear layers is trained.
    """
    if not hasattr(model, _ADAPTED):
        return
    layers = _layers(model.get_base_model())
    own = dict(model.get_base_model().named_parameters())  # each once, under its first name
    wrong = [
        f"{name} ({type(layer.get_base_layer()).__name__}) is no linear layer"
        for name, layer in layers.items()
        if type(layer.get_base_layer()).__name__ not in ("Linear", "Conv1D")
    ]
    wrong += [
        f"{name} has a variant of LoRA" for name, layer in layers.items() if layer.lora_variant
    ]
    tied = [name for name in layers if f"{name}.base_layer.weight" not in own]
    wrong += [f"{name} shares its weight with another module" for name in tied]
    matrices = {f"{name}.lora_{m}.{ADAPTER}.weight" for name in layers for m in "AB"}
    trained = [name for name, parameter in own.items() if parameter.requires_grad]
    wrong += [f"{name} is trained" for name in trained if name not in matrices]
    if wrong or not trained:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        found = "; ".join(wrong[:3]) + more if wrong else "nothing is trained"
        raise ConfigError(
            f"these adapters cannot be merged for the engine: {found}. Give plain LoRA of linear "
            "layers: no other kind of adapter, no DoRA, no bias, no modules_to_save, no "
            "embeddings."
        )


def share(model: Any) -> str:
    """Returns a sentence on how much of a model with adapters is trained."""
    trained, whole = model.get_nb_trainable_parameters()
    rest = whole - trained
    return f"LoRA trains {trained:,} parameters, {trained / rest:.2%} of the model's {rest:,}"


def policy_weights(model: Any, *, held: "Mapping[str, Tensor] | None" = None) -> "Weights":
    """Returns the policy's tensors by checkpoint name, with any adapters merged.

    Adapters are merged in float32 into copies, each time anew: the frozen weights do not change.

    Args:
        model: the policy.
        held: its parameters where they are gathered; its own by default.
    """
    held = dict(model.named_parameters()) if held is None else held
    if not hasattr(model, _ADAPTED):
        return held.items()
    return _merged(model.get_base_model(), held=held)


def load(start: str, *, checkpoint: Path) -> Any:
    """Loads the policy of a checkpoint that holds adapters.

    Args:
        start: folder of the model that the adapters belong to.
        checkpoint: folder with the adapters.
    """
    from gfcr.train.loading import load_policy

    return import_module("peft").PeftModel.from_pretrained(load_policy(Path(start)), checkpoint)


def save_merged(start: str, *, checkpoint: Path, folder: Path) -> Path:
    """Saves a merged policy as a folder that engines and transformers open, and returns it.

    Args:
        start: folder of the model that the adapters belong to.
        checkpoint: folder with the adapters.
        folder: where to save; what is there is replaced once everything is written.
    """
    policy = load(start, checkpoint=checkpoint).merge_and_unload()
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    policy.save_pretrained(draft)
    tokenizer_of(start, padding_side="left").save_pretrained(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return folder


def _merged(base: Any, *, held: "Mapping[str, Tensor]") -> "Iterator[tuple[str, Tensor]]":
    layers = _layers(base)
    for given, weight in held.items():
        owner, _, leaf = given.removeprefix(_BASE).rpartition(".")
        # PEFT puts the frozen linear layer one level down, under a name no checkpoint has.
        whole = owner.removesuffix(".base_layer")
        if whole != owner and leaf == "weight":
            # In a narrower type most of what the adapters add would be rounded away.
            yield f"{whole}.{leaf}", weight.detach().float() + _delta(whole, layers[whole], held)
        elif ".lora_" not in owner:
            yield f"{whole}.{leaf}", weight


def _delta(name: str, layer: Any, held: "Mapping[str, Tensor]") -> "Tensor":
    """Returns what a layer's matrices add to its weight, by PEFT's own arithmetic."""
    a, b = (held[f"{_BASE}{name}.lora_{m}.{ADAPTER}.weight"].detach() for m in "AB")
    product = b @ a
    return (product.T if layer.fan_in_fan_out else product) * layer.scaling[ADAPTER]


def _layers(base: Any) -> dict[str, Any]:
    kind = import_module("peft.tuners.lora").LoraLayer
    return {name: module for name, module in base.named_modules() if isinstance(module, kind)}
