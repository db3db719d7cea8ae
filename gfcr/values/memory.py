"""A bounded memory of the latest items of many keys."""

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def remember(
    memory: dict[str, deque[T]], *, key: str, items: Iterable[T], capacity: int, max_keys: int
) -> None:
    """Adds items to a key; keeps its last `capacity` items, and the last `max_keys` keys.

    Keys are ordered by their last items: the one without new items for longest is forgotten first.
    """
    kept = memory.pop(key, deque[T](maxlen=capacity))
    memory[key] = kept
    kept.extend(items)
    while len(memory) > max_keys:
        del memory[next(iter(memory))]
