"""Counts what is given for each of several things."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")


def one_each(of: Sequence[T], *, given: Iterable[V], by: str) -> list[tuple[T, V]]:
    """Returns a group's rollouts, or their signals, in pairs with what is given for each.

    Raises:
        ValueError: more or fewer values are given; `by` is the method that was called.
    """
    values = list(given)
    if len(values) != len(of):
        raise ValueError(
            f"`{by}` was given {len(values)} values for a group of {len(of)} rollouts: give one "
            "for each of them, in order, rejected ones too"
        )
    return list(zip(of, values, strict=True))
