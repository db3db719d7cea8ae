"""Checks which values from parts and verifiers are numbers."""

from numbers import Integral, Real
from typing import Final, TypeGuard

import numpy as np

LARGEST: Final = float(np.finfo(np.float32).max)
MOST: Final = 1_000_000
"""The largest count: more items than that cannot be processed one by one."""


def is_number(value: object) -> TypeGuard[float]:
    """Tells whether a value is a real number of Python or numpy, finite or not."""
    return isinstance(value, Real | np.bool_)


def is_count(value: object, *, least: int = 1) -> bool:
    """Tells whether a value is an integer from `least` to `MOST`."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Integral) and least <= int(value) <= MOST


def real(value: object) -> float | None:
    """Returns a value as a number that is finite in single precision; None for anything else.

    Python's and numpy's integers, floats and booleans are numbers, and so are fractions; complex
    numbers, texts and arrays are not.
    """
    if not is_number(value):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if abs(number) <= LARGEST else None


def plain(note: float | str) -> float | str:
    """Returns a note as records hold it: numpy's numbers and texts become Python's."""
    return str(note) if isinstance(note, str) else float(note)


def is_note(key: object, value: object) -> bool:
    """Tells whether a note maps a name to a text or number; NaN stands for one not measured."""
    nothing = is_number(value) and value != value
    return isinstance(key, str) and (isinstance(value, str) or nothing or real(value) is not None)
