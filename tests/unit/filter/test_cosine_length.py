"""The cosine length reward: its ends, its order, and what it leaves alone."""

from math import cos, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.cosine_length import CosineLength
from gfcr.testing import factories as make
from gfcr.types import FinishReason

PART = CosineLength()
CAP = 40


def shaped(rewards: list[float | None], lengths: list[int], **changes: object) -> list[float]:
    rollouts = [
        make.rollout(i, reward=r, length=n, **changes)
        for i, (r, n) in enumerate(zip(rewards, lengths, strict=True))
    ]
    group = PART.apply(make.group_of(rollouts), view=make.view(max_tokens=CAP))
    return group.rewards_N.tolist()


@given(length=st.integers(0, 200), cap=st.integers(1, 200))
def test_it_is_the_paper_s_function(length: int, cap: int) -> None:
    x = min(length / cap, 1.0)
    right = 1.0 + 0.5 * (2.0 - 1.0) * (1 + cos(pi * x))
    wrong = 0.0 + 0.5 * (-10.0 - 0.0) * (1 + cos(pi * x))
    assert PART.reward(right=True, length=length, cap=cap) == pytest.approx(right)
    assert PART.reward(right=False, length=length, cap=cap) == pytest.approx(wrong)


def test_the_ends_are_the_settings() -> None:
    ends = [PART.reward(right=r, length=n, cap=CAP) for r in (True, False) for n in (0, CAP)]
    assert ends == pytest.approx([2.0, 1.0, -10.0, 0.0])


@given(lengths=st.lists(st.integers(1, CAP), min_size=2, max_size=8, unique=True))
def test_of_right_ones_the_shortest_earns_most_of_wrong_ones_the_longest(
    lengths: list[int],
) -> None:
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    right = shaped([1.0] * len(lengths), lengths)
    wrong = shaped([0.0] * len(lengths), lengths)
    assert [right[i] for i in order] == sorted(right, reverse=True)
    assert [wrong[i] for i in order] == sorted(wrong)
    assert min(right) >= 1.0 > 0.0 >= max(wrong)


def test_what_met_its_cap_is_charged_right_or_wrong() -> None:
    assert shaped([1.0, 0.0], [CAP, 9], finish=FinishReason.LENGTH) == [-10.0, -10.0]


def test_unscorable_rollouts_stay_so() -> None:
    first, second = shaped([None, 1.0], [4, 4])
    assert first != first and second > 1.0


def test_the_strategy_trains_where_all_are_right() -> None:
    plan = strategies.load("cosine_length")
    pipeline = make.pipeline(plan, task=make.CoinTask(rates=(1.0,)))
    batch = pipeline.next_batch()
    ended = [s for s in batch.samples if s.rollout.finish == FinishReason.STOP]
    for group in {s.rollout.group_id for s in ended}:
        own = [s for s in ended if s.rollout.group_id == group]
        own.sort(key=lambda s: len(s.rollout))
        means = [float(s.advantage_T[0]) for s in own]
        assert means == sorted(means, reverse=True)
    assert any(s.advantage_T.any() for s in batch.samples)
