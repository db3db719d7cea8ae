"""A small model of the same vocabulary drafts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from gfcr.errors import ConfigError
from gfcr.speculation.weights import DraftWeights

SAMPLES = {"greedy": None, "probabilistic": "probabilistic"}


@final
@dataclass(kw_only=True)
class DraftModel(DraftWeights):
    """A small model of the same vocabulary drafts token by token."""

    sample: str = "probabilistic"
    """`greedy` drafts the likeliest token, `probabilistic` draws it: more is accepted at T = 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample not in SAMPLES:
            raise ConfigError(
                f"drafter.sample={self.sample} is not allowed: give {' or '.join(SAMPLES)}."
            )

    @property
    def sampled(self) -> bool:
        """See `Drafter.sampled`."""
        return self.sample == "probabilistic"

    def settings(self) -> Mapping[str, Any]:
        """See `BuiltIn.settings`."""
        method = {"draft_sample_method": "probabilistic"} if self.sampled else {}
        return {
            "method": "draft_model",
            "model": str(self.folder),
            "num_speculative_tokens": self.draft_length,
            **method,
        }
