"""The commands of `gfcr`, one module each, and what several of them take or say."""

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from gfcr.errors import shown
from gfcr.values.ranges import describe, reader


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


def within(hint: Any) -> Callable[[str], Any]:
    """An argparse `type` that takes what a field of this annotation takes."""
    number: type[int] | type[float] = get_args(hint)[0]

    def read(text: str) -> Any:
        try:
            return reader(hint)(number(text))
        except (ValueError, OverflowError) as error:
            told = f"{shown(text)} is not allowed: give {describe(hint)}"
            raise argparse.ArgumentTypeError(told) from error

    return read
