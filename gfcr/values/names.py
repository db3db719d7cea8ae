"""Checks the names that users give to studies and arms, which are never paths, and sorts names."""

import re
from typing import Any, Final

from gfcr.errors import ConfigError

LONGEST: Final = 100
"""The most characters of a name; file systems allow 255 bytes, and names get suffixes."""
_NAME: Final = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9_.+()=,@ -]*")
_ALLOWED: Final = (
    f"at most {LONGEST} letters (a to z, A to Z), digits, spaces and _ - . + ( ) = , @, beginning "
    "with a letter, a digit, _ or ( and not ending with a space or a dot"
)


def check(name: str, *, key: str) -> str:
    """Returns a name that is safe as that of a folder, a file or a table.

    Raises:
        ConfigError: it is empty or too long, or has characters that mean something in paths,
            tables or markup.
    """
    ends_badly = name.endswith((" ", "."))
    if len(name) > LONGEST or ends_badly or not _NAME.fullmatch(name):
        shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
        raise ConfigError(f"{key}={shown!r} is not allowed as a name: give {_ALLOWED}.")
    return name


def natural(name: str) -> list[Any]:
    """Returns what names are sorted by, so that numbers in them come in their order."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def of_object(address: str) -> str:
    """Returns the name in `path/to/file.py:name` or `package.module:name`; others are names."""
    return address.rpartition(":")[2]
