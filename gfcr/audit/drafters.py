"""The drafters an audit covers, each as vLLM's `speculative_config`."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gfcr.errors import ConfigError, unknown_name

NOISE: Final = 0.15
"""Of the draft model's weights, in standard deviations of each tensor of the target."""


@final
@dataclass(frozen=True, kw_only=True)
class Drafter:
    """A way of drafting."""

    speculative: Mapping[str, Any] | None = None
    deterministic: bool = True
    """Whether drafts are a function of the past; otherwise they are sampled."""
    needs_model: bool = False


DRAFTERS: Final[Mapping[str, Drafter]] = {
    "none": Drafter(),
    "ngram": Drafter(
        speculative={
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 2,
            "prompt_lookup_min": 1,
        }
    ),
    "suffix": Drafter(speculative={"method": "suffix", "num_speculative_tokens": 6}),
    "draft_model": Drafter(
        speculative={"method": "draft_model", "num_speculative_tokens": 3}, needs_model=True
    ),
    "draft_model_sampled": Drafter(
        speculative={
            "method": "draft_model",
            "num_speculative_tokens": 3,
            "draft_sample_method": "probabilistic",
        },
        deterministic=False,
        needs_model=True,
    ),
}


def named(names: str) -> list[str]:
    """Drafters by names with commas between them; `all` is every one that is installed.

    Raises:
        ConfigError: there is no such drafter, or its package is missing.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    suffix = importlib.util.find_spec("arctic_inference") is not None
    if words == ["all"] or not words:
        return [name for name in DRAFTERS if name != "suffix" or suffix]
    for word in words:
        if word not in DRAFTERS:
            raise unknown_name(word, kind="drafter", allowed=[*DRAFTERS, "all"], where="--drafter")
    if "suffix" in words and not suffix:
        raise ConfigError("--drafter suffix needs arctic-inference: pip install 'gfcr[suffix]'.")
    return words


def speculative(name: str, *, model: str | Path, scratch: str | Path) -> Mapping[str, Any] | None:
    """VLLM's configuration of a drafter.

    Args:
        name: of `DRAFTERS`.
        model: the target's folder.
        scratch: where a draft model is made: the target with noise on every weight, so that its
            drafts are often right and often wrong.
    """
    drafter = DRAFTERS[name]
    if not drafter.needs_model:
        return drafter.speculative
    return {**(drafter.speculative or {}), "model": str(_noisy(model, folder=Path(scratch)))}


def _noisy(model: str | Path, *, folder: Path) -> Path:
    import torch
    from transformers import AutoModelForCausalLM

    library: Any = torch
    loader: Any = AutoModelForCausalLM
    draft = loader.from_pretrained(str(model), dtype=library.float32)
    generator = library.Generator().manual_seed(0)
    with library.no_grad():
        for parameter in draft.parameters():
            if parameter.dim() > 1:
                noise = library.randn(parameter.shape, generator=generator)
                parameter.add_(NOISE * parameter.std() * noise)
    draft.save_pretrained(folder / "draft")
    return folder / "draft"
