"""Code in what a model wrote."""

import re
from typing import Final

_FENCED: Final = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)


def last_block(text: str) -> str:
    """The last fenced block, closed or not; the whole text where there is none."""
    blocks = _FENCED.findall(text)
    return blocks[-1] if blocks else text
