"""The commands of `gfcr`, one module each."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command has to say."""

    data: Any
    """The JSON object."""
    text: Any = None
    """What people read instead: a string, a rich renderable or a list of them."""
    code: int = 0
