"""Multi-token prediction: speculation with heads that came with the checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from gfcr.speculation.base import BuiltIn
from gfcr.values.ranges import DraftLength


@final
@dataclass(kw_only=True)
class Mtp(BuiltIn):
    """The checkpoint's own multi-token-prediction heads draft; vLLM refuses models without."""

    draft_length: DraftLength = 1
    """Tokens drafted for one verification (k)."""

    def settings(self) -> Mapping[str, Any]:
        return {"method": "mtp", "num_speculative_tokens": self.draft_length}
