"""N-gram drafting: what followed the same words earlier in the sequence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from gfcr.errors import ConfigError
from gfcr.speculation.base import BuiltIn


@final
@dataclass(kw_only=True)
class Ngram(BuiltIn):
    """Repeats what followed the sequence's last few tokens before (prompt lookup)."""

    draft_length: int = 3
    """Tokens drafted for one verification (k)."""
    longest: int = 4
    """Most tokens of the end of the sequence that are looked up; longer matches go first."""
    shortest: int = 2
    """Fewest of them."""

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ConfigError(
                f"drafter: shortest={self.shortest}, longest={self.longest}: "
                "give 1 <= shortest <= longest."
            )

    @property
    def max_draft(self) -> int:
        """See `Drafter.max_draft`."""
        return self.draft_length

    def settings(self) -> Mapping[str, Any]:
        """See `BuiltIn.settings`."""
        return {
            "method": "ngram",
            "num_speculative_tokens": self.draft_length,
            "prompt_lookup_max": self.longest,
            "prompt_lookup_min": self.shortest,
        }
