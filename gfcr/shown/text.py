"""Numbers and words as text, made safe for the places they are shown in; data as JSON."""

import dataclasses
import html
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

_MARKUP: Final = re.compile(r"([\\`*|\[\]])")
_CONTROL: Final = re.compile(r"[\x00-\x1f]+")


def number(value: float | None, form: str = ",.0f") -> str:
    """Returns a number in a format; nothing for one that is not known."""
    return "" if value is None or not isfinite(value) else f"{value:{form}}"


def span(found: Any, *, form: str = ".3f") -> str:
    """Returns `value [low, high]` of what has these; the value alone where limits are unknown."""
    limits = f" [{found.low:{form}}, {found.high:{form}}]" if isfinite(found.low) else ""
    return f"{found.value:{form}}{limits}"


def markdown(text: str) -> str:
    """Returns one line of Markdown that shows the text: no HTML, no markup, no table cell ends."""
    line = " ".join(text.split())
    return _MARKUP.sub(r"\\\1", html.escape(line, quote=False))


def csv_cell(value: object) -> str:
    """Returns a CSV cell of one line; what is not known is empty."""
    if not isinstance(value, str):
        return "" if plain(value) is None else str(value)
    return _CONTROL.sub(" ", value).strip()


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: dataclasses by field, text keys, null where not finite."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not isfinite(value) else value
