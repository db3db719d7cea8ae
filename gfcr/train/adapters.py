"""LoRA: a policy trained through adapters, and its merged weights for the engine.

The one file that imports peft.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, final

from annotated_types import Interval, Len

from gfcr.errors import ConfigError
from gfcr.process.tokenizer import tokenizer_of
from gfcr.values import plain
from gfcr.values.ranges import Checked, Count, Word

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gfcr.engine.base import Weights

ADAPTER: Final = "default"
"""PEFT's name of the adapter that is trained."""
MERGED: Final = "merged"
"""Folder beside the checkpoints with the final policy, its adapters merged into the weights."""
Targets: TypeAlias = Literal["all-linear"] | Annotated[tuple[Word, ...], Len(1, 1000)]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lora(Checked):
    """LoRA computes with W + alpha / rank x B A in place of W: A and B are trained, W is frozen.

    There is no dropout, since the engine samples without any.
    """

    rank: Count = 16
    alpha: Annotated[float, Interval(gt=0, le=1e6)] = 32.0
    targets: Targets = "all-linear"
    """Modules to adapt: all linear layers but the output head, or module names such as `q_proj`."""


def read(given: Mapping[str, Any], *, where: str) -> Lora:
    """Parses a mapping of settings into the record.

    Raises:
        ConfigError: unknown key, wrong type or out of range.
    """
    return Lora(**plain.merge(Lora, {}, given, where=where))


def said(lora: Lora) -> dict[str, Any]:
    """Returns the mapping that `read` parses, with every value."""
    return asdict(lora)


def peft_config(lora: Lora) -> Any:
    """Returns the settings as PEFT's `LoraConfig`."""
    import peft as untyped

    peft: Any = untyped
    all_linear = lora.targets == "all-linear"
    return peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        target_modules=lora.targets if all_linear else list(lora.targets),
        task_type="CAUSAL_LM",
    )


def refused(config: Any) -> str | None:
    """Returns why a script's `peft_config` cannot be used, and what to do; None if it can."""
    if config is None:
        return None
    import peft as untyped

    peft: Any = untyped
    if isinstance(config, peft.LoraConfig):
        return None
    return (
        f"peft_config={type(config).__name__}: give a peft.LoraConfig: the engine is given whole "
        "weights, and only LoRA's matrices are added to them here"
    )


def is_adapted(model: Any) -> bool:
    """Whether a model is trained through PEFT adapters."""
    return hasattr(model, "peft_config")


def check_mergeable(model: Any) -> None:
    """Checks that the adapters of a model can be merged into whole weights.

    Raises:
        ConfigError: something other than LoRA matrices of linear layers is trained.
    """
    if not is_adapted(model):
        return
    layers = _layers(model.get_base_model())
    wrong = [
        f"{name} ({type(layer.get_base_layer()).__name__}) is no linear layer"
        for name, layer in layers.items()
        if type(layer.get_base_layer()).__name__ not in ("Linear", "Conv1D")
    ]
    wrong += [
        f"{name} has a variant of LoRA" for name, layer in layers.items() if layer.lora_variant
    ]
    matrices = {f"{name}.lora_{m}.{ADAPTER}.weight" for name in layers for m in "AB"}
    trained = [n for n, p in model.get_base_model().named_parameters() if p.requires_grad]
    wrong += [f"{name} is trained" for name in trained if name not in matrices]
    if wrong or not trained:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        found = "; ".join(wrong[:3]) + more if wrong else "nothing is trained"
        raise ConfigError(
            f"these adapters cannot be merged for the engine: {found}. Give plain LoRA of linear "
            "layers: no other kind of adapter, no DoRA, no bias, no modules_to_save, no "
            "embeddings."
        )


def policy_weights(model: Any) -> "Weights":
    """Returns the policy's tensors by checkpoint name, with any adapters merged.

    Adapters are merged in float32 into copies, each time anew: the frozen weights do not change.
    """
    if not is_adapted(model):
        return model.named_parameters()
    return _merged(model.get_base_model())


def load(start: str, *, checkpoint: Path) -> Any:
    """Loads the policy of a checkpoint that holds adapters.

    Args:
        start: folder of the model that the adapters belong to.
        checkpoint: folder with the adapters.
    """
    import peft as untyped

    from gfcr.train.loading import load_policy

    peft: Any = untyped
    return peft.PeftModel.from_pretrained(load_policy(Path(start)), checkpoint)


def save_merged(model: Any, *, start: str, folder: Path) -> Path:
    """Saves the merged policy as a folder that engines and transformers open, and returns it.

    Args:
        model: the policy with its adapters.
        start: folder of the model that the adapters belong to.
        folder: where to save; what is there is replaced once everything is written.
    """
    import torch

    from gfcr.train.loading import load_policy

    policy: Any = load_policy(Path(start))
    own = dict(policy.named_parameters())
    with torch.no_grad():
        for name, weight in policy_weights(model):
            own.pop(name).copy_(weight)
    assert not own, f"not merged: {sorted(own)}"
    draft = folder.with_name(f".{folder.name}")
    for path in (draft, folder):
        shutil.rmtree(path, ignore_errors=True)
    policy.save_pretrained(draft)
    tokenizer_of(start, padding_side="left").save_pretrained(draft)
    draft.rename(folder)
    return folder


def _merged(base: "nn.Module") -> "Iterator[tuple[str, Tensor]]":
    import torch

    layers = _layers(base)
    for name, weight in base.named_parameters():
        owner, _, leaf = name.rpartition(".")
        whole = owner.removesuffix(".base_layer")
        if whole == owner:
            if ".lora_" not in name:
                yield name, weight
        elif leaf == "weight":
            with torch.no_grad():
                merged = weight.float() + layers[whole].get_delta_weight(ADAPTER)
            yield f"{whole}.{leaf}", merged
        else:
            yield f"{whole}.{leaf}", weight


def _layers(base: Any) -> dict[str, Any]:
    from peft.tuners.lora import LoraLayer as untyped

    kind: Any = untyped
    return {name: module for name, module in base.named_modules() if isinstance(module, kind)}
