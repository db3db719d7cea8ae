"""What is remembered of many keys."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from gfcr.values.memory import remember


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers()), max_size=60))
def test_the_last_items_of_the_keys_seen_last_are_kept(seen: list[tuple[str, int]]) -> None:
    memory: dict[str, deque[int]] = {}
    for key, item in seen:
        remember(memory, key=key, items=(item,), capacity=2, max_keys=3)
    last = list(dict.fromkeys(key for key, _ in reversed(seen)))[:3]
    assert list(reversed(memory)) == last
    for key in memory:
        items = [i for k, i in seen if k == key]
        assert items[len(items) - len(memory[key]) :] == list(memory[key])
        assert len(memory[key]) <= 2


def test_a_key_without_new_items_counts_as_seen() -> None:
    memory: dict[str, deque[int]] = {}
    for key, items in (("a", [1, 2, 3]), ("b", [4]), ("a", []), ("c", [5])):
        remember(memory, key=key, items=items, capacity=2, max_keys=2)
    assert memory == {"a": deque([2, 3]), "c": deque([5])}
