"""Names and words of a store made safe for the places they are shown in."""

import html
import re
from typing import Final

_MARKUP: Final = re.compile(r"([\\`*|\[\]])")
_CONTROL: Final = re.compile(r"[\x00-\x1f]+")
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def markdown(text: str) -> str:
    """Returns one line of Markdown that shows the text: no HTML, no markup, no table cell ends."""
    line = " ".join(text.split())
    return _MARKUP.sub(r"\\\1", html.escape(line, quote=False))


def csv_cell(value: object) -> str:
    """Returns a CSV cell; a text that a spreadsheet would take for a formula gets a `'` before.

    As OWASP advises (https://owasp.org/www-community/attacks/CSV_Injection). Numbers stay numbers.
    """
    if not isinstance(value, str):
        return str(value)
    line = _CONTROL.sub(" ", value).strip()
    return f"'{line}" if line.startswith(_FORMULA) else line
