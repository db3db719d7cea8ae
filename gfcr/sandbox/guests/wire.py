"""Encodes values as lines of JSON, and decodes them to plain built-in values only."""

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

_TEXTS: dict[str, tuple[Any, Callable[[Any], str], Callable[[str], Any]]] = {
    "int": (int, lambda value: int.__format__(value, "x"), lambda text: int(text, 16)),
    "float": (float, float.hex, float.fromhex),
    "complex": (complex, complex.__str__, complex),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "bytearray": (bytearray, bytearray.hex, bytearray.fromhex),
    "Fraction": (
        Fraction,
        lambda value: f"{value.numerator:x}/{value.denominator:x}",
        lambda text: Fraction(*(int(part, 16) for part in text.split("/"))),
    ),
    "Decimal": (Decimal, Decimal.__str__, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
}
"""Types whose values are sent as text of any length, how they are written and read."""
_ITEMS: dict[str, Any] = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}


class UnsendableError(TypeError):
    """Raised for a value that is none of Python's plain ones."""


def dumps(message: Any) -> bytes:
    """Encodes a message as JSON, without the newline."""
    return json.dumps(message, separators=(",", ":")).encode()


def pack(value: Any, *, keep: Callable[[Any], int] | None = None) -> Any:
    """Encodes a plain value for JSON; another one as the number that `keep` gives for it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    for name, (kind, write, _) in _TEXTS.items():
        if isinstance(value, kind):  # as the plain one, whatever it makes of itself
            return [name, write(value)]
    if isinstance(value, range):
        return ["range", *(pack(n) for n in (value.start, value.stop, value.step))]
    if isinstance(value, dict):
        plain: Any = dict
        pairs = plain.items(value)
        return ["dict", [[pack(k, keep=keep), pack(v, keep=keep)] for k, v in pairs]]
    for kind in _ITEMS.values():
        if isinstance(value, kind):
            return [kind.__name__, [pack(v, keep=keep) for v in kind.__iter__(value)]]
    if keep is None:
        raise UnsendableError(f"a {type(value).__name__} is no plain value")
    return ["held", keep(value)]


def unpack(data: Any, *, held: Callable[[int], Any] | None = None) -> Any:
    """Decodes a value; raises ValueError or TypeError for data that `pack` never makes."""
    if data is None or isinstance(data, bool | str):
        return data
    if not isinstance(data, list):
        raise TypeError("no value")
    rest: list[Any] = [*data]  # pyright: ignore[reportUnknownArgumentType] # what JSON holds
    kind: Any = rest.pop(0) if rest else None
    match kind:
        case _ if kind in _TEXTS:
            return _TEXTS[kind][2](rest[0])
        case "range":
            return range(*(unpack(n) for n in rest))
        case "dict":
            return {unpack(k, held=held): unpack(v, held=held) for k, v in rest[0]}
        case _ if kind in _ITEMS:
            return _ITEMS[kind](unpack(v, held=held) for v in rest[0])
        case "held" if held:
            return held(rest[0])
        case _:
            raise ValueError("no value")
