"""Which values that parts and verifiers hand over are numbers."""

from numbers import Integral, Real
from typing import Final, TypeGuard

import numpy as np

LARGEST: Final = float(np.finfo(np.float32).max)
MOST: Final = 1_000_000
"""The largest count: more than that cannot be gone through one by one."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number of Python or numpy, finite or not."""
    return isinstance(value, Real | np.bool_)


def is_count(value: object, *, least: int = 1) -> bool:
    """Whether it is an integer of at least that much, and few enough to be gone through."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Integral) and least <= int(value) <= MOST


def real(value: object) -> float | None:
    """The value as a number that is finite in single precision; None for anything else.

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


def is_note(key: object, value: object) -> bool:
    """Whether a note is a number by name; NaN is one that was not measured."""
    nothing = is_number(value) and value != value
    return isinstance(key, str) and (nothing or real(value) is not None)
