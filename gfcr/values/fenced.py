"""Extracts code from a model's Markdown answer."""

import re
from typing import Final

_FENCED: Final = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)


def last_block(text: str) -> str:
    """Returns the last fenced code block, closed or not; the whole text where there is none."""
    blocks = _FENCED.findall(text)
    return blocks[-1] if blocks else text
