"""N-gram drafting: repeats what followed the same tokens earlier in the sequence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.speculation.base import BuiltIn
from gfcr.values.ranges import DraftLength


@final
@dataclass(kw_only=True)
class Ngram(BuiltIn):
    """Repeats what followed the sequence's last few tokens before (prompt lookup)."""

    looks_up: ClassVar[bool] = True

    draft_length: DraftLength = 3
    """Tokens drafted for one verification (k)."""
    longest: Annotated[int, Interval(ge=1, le=1000)] = 4
    """Longest end of the sequence that is looked up, in tokens; longer matches are preferred."""
    shortest: Annotated[int, Interval(ge=1, le=1000)] = 2
    """Shortest end of the sequence that is looked up, in tokens."""

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise ConfigError(
                f"drafter: shortest={self.shortest}, longest={self.longest}: "
                "give shortest <= longest."
            )

    def settings(self) -> Mapping[str, Any]:
        return {
            "method": "ngram",
            "num_speculative_tokens": self.draft_length,
            "prompt_lookup_max": self.longest,
            "prompt_lookup_min": self.shortest,
        }
