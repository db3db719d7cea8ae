"""Speculation with a small draft model of the same vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

from gfcr.speculation.weights import DraftWeights

Sample: TypeAlias = Literal["greedy", "probabilistic"]
"""Choice of draft tokens: `greedy` takes the likeliest, `probabilistic` samples (more accepted)."""


def small_model(folder: Path, *, draft_length: int, sample: Sample) -> Mapping[str, Any]:
    """Returns vLLM's `speculative_config` for a small draft model."""
    method = {"draft_sample_method": sample} if sample == "probabilistic" else {}
    return {
        "method": "draft_model",
        "model": str(folder),
        "num_speculative_tokens": draft_length,
        **method,
    }


@final
@dataclass(kw_only=True)
class DraftModel(DraftWeights):
    """A small model of the same vocabulary drafts token by token."""

    sample: Sample = "probabilistic"
    """How a draft token is chosen: `probabilistic` samples it, `greedy` takes the likeliest."""

    @property
    def sampled(self) -> bool:
        return self.sample == "probabilistic"

    def settings(self) -> Mapping[str, Any]:
        return small_model(self.folder, draft_length=self.draft_length, sample=self.sample)
