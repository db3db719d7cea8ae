"""The paired prompt stream: every prompt once an epoch, in an order only the seed decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import TaskError
from gfcr.loop.stream import PromptStream
from gfcr.testing import factories as make

PROMPTS = [make.prompt(i) for i in range(7)]


def drawn(stream: PromptStream, *sizes: int) -> list[str]:
    return [p.id for num in sizes for p in stream.draw(num)]


@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(0, 9), max_size=8))
def test_each_epoch_holds_each_prompt_once_however_it_is_drawn(seed: int, sizes: list[int]) -> None:
    stream = PromptStream(PROMPTS, seed=seed)
    ids = drawn(stream, *sizes)
    assert ids == drawn(PromptStream(PROMPTS, seed=seed), *[1] * sum(sizes))
    for start in range(0, len(ids), 7):
        assert len(set(ids[start : start + 7])) == len(ids[start : start + 7])
    assert stream.drawn == sum(sizes)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    ids = drawn(PromptStream(PROMPTS, seed=1), 21)
    assert ids[:7] != ids[7:14] != ids[14:]
    assert ids[:7] != drawn(PromptStream(PROMPTS, seed=2), 7)


@given(before=st.integers(0, 30), back=st.integers(0, 5), after=st.integers(0, 30))
def test_a_restored_stream_goes_on(before: int, back: int, after: int) -> None:
    whole = PromptStream(PROMPTS, seed=3)
    drawn(whole, before)
    whole.put_back(PROMPTS[:back])
    restored = PromptStream(PROMPTS, seed=3)
    restored.load_state_dict(whole.state_dict())
    assert drawn(restored, after) == drawn(whole, after)


def test_what_is_put_back_is_drawn_next_and_changes_nothing_after_it() -> None:
    stream = PromptStream(PROMPTS, seed=3)
    taken = stream.draw(5)
    stream.put_back(taken[3:])
    stream.put_back(taken[1:3])
    assert [p.id for p in taken[:1]] + drawn(stream, 9) == drawn(PromptStream(PROMPTS, seed=3), 10)
    assert stream.drawn == 10


def test_nothing_to_draw_from_is_refused() -> None:
    with pytest.raises(TaskError, match=r"^the task has no training prompts: "):
        PromptStream([], seed=0)


def test_without_a_seed_prompts_come_in_the_order_given_again_and_again() -> None:
    ids = [p.id for p in PROMPTS]
    assert drawn(PromptStream(PROMPTS, seed=None), 9) == [*ids, *ids[:2]]


def test_the_order_is_the_one_of_every_arm_with_that_seed() -> None:
    """Pinned: a stream that moved would unpair runs that are compared."""
    numbers = [name[1:] for name in drawn(PromptStream(PROMPTS, seed=3), 14)]
    assert "".join(numbers) == "35126045302641"
