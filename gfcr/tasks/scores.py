"""The numbers that reward functions return, read as TRL reads them."""

from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from typing import Any, cast


def listed(found: Any) -> list[Any] | None:
    """Returns what a function gave for many completions as a list; None if it is none.

    Arrays, tensors, series and generators are lists of their elements; sets have no order.
    """
    if hasattr(found, "tolist"):
        found = found.tolist()
    if isinstance(found, str | bytes | bytearray | Mapping | Set) or not isinstance(
        found, Iterable
    ):
        return None
    return list(cast("Iterable[Any]", found))


def number(value: Any) -> Any:
    """Returns a score as a number, where it holds one; anything else as it is.

    Tensors and arrays of one element are their element, in any number of dimensions, and so are
    lists of one, which arrays of several dimensions are read as. verl's mappings have a `score`.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        held = cast("Mapping[str, Any]", value)
        return number(held["score"]) if "score" in held else held
    if isinstance(value, list):
        values = cast("list[Any]", value)
        return number(values[0]) if len(values) == 1 and not isinstance(values[0], str) else values
    elements = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return value.item() if elements == 1 else value
