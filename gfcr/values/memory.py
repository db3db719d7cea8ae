"""What is remembered of many keys, and how much."""

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def remember(
    memory: dict[str, deque[T]], *, key: str, items: Iterable[T], capacity: int, max_keys: int
) -> None:
    """Adds items to a key's, of which the last `capacity` are kept, of the last `max_keys` keys.

    Keys are in order of their last items: the one that had none for longest is forgotten first.
    """
    kept = memory.pop(key, deque[T](maxlen=capacity))
    memory[key] = kept
    kept.extend(items)
    while len(memory) > max_keys:
        del memory[next(iter(memory))]
