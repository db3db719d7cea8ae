"""The commands of `gfcr`, one module each."""

import shutil
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


def terminal_width() -> int:
    """Columns to fill; a file or pipe gets room for the widest table."""
    return shutil.get_terminal_size((120, 24)).columns
