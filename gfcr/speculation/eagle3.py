"""EAGLE-3: speculation with a one-layer head on the target's hidden states."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from gfcr.speculation.weights import DraftWeights


@final
@dataclass(kw_only=True)
class Eagle3(DraftWeights):
    """A one-layer head that sees the target's hidden states drafts token by token."""

    paper: ClassVar[str] = "2503.01840"

    def settings(self) -> Mapping[str, Any]:
        return {
            "method": "eagle3",
            "model": str(self.folder),
            "num_speculative_tokens": self.draft_length,
        }
