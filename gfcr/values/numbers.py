"""Checks which values from parts and verifiers are numbers, and as many as were asked for."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Final, TypeGuard, TypeVar

import numpy as np

T = TypeVar("T")
V = TypeVar("V")
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


def one_each(of: Sequence[T], *, given: Iterable[V], by: str) -> list[tuple[T, V]]:
    """Returns a group's rollouts, or their signals, in pairs with what is given for each.

    Raises:
        ValueError: more or fewer values are given; `by` is the method that was called.
    """
    if len(values := list(given)) != len(of):
        raise ValueError(
            f"`{by}` was given {len(values)} values for a group of {len(of)} rollouts: give one "
            "for each of them, in order, rejected ones too"
        )
    return list(zip(of, values, strict=True))
