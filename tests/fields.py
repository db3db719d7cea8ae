"""Comparison of records that hold arrays or NaN, whose own `==` depends on Python's version."""

from dataclasses import fields
from typing import Any


def fields_of(record: Any) -> dict[str, Any]:
    """Returns a dataclass's fields by name: equal where each is the same object, or equal."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
