"""Numbers on the command line, within the same ranges as in files."""

import argparse
from collections.abc import Callable
from typing import Any, get_args

from gfcr.errors import shown
from gfcr.values.ranges import describe, reader


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
