"""Weights by distance to siblings, against the formula over pairs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.novelty import Novelty
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def _group(sequences: list[list[int]], rewards: list[float | None] | None = None) -> Group:
    pairs = zip(sequences, rewards or [1.0] * len(sequences), strict=True)
    rollouts = [
        make.rollout(i, length=len(t), tokens_T=np.array(t, np.int32), reward=r)
        for i, (t, r) in enumerate(pairs)
    ]
    return make.group_of(rollouts)


def _weights(sequences: list[list[int]], rewards: Any = None, **values: Any) -> list[float]:
    after = Novelty(**values).apply(_group(sequences, rewards), view=make.view())
    return [s.weight for s in after.signals]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 7), min_size=1, max_size=5), min_size=2, max_size=7),
    st.floats(0, 1),
)
def test_weights_are_the_formula_and_one_in_the_mean(
    sequences: list[list[int]], strength: float
) -> None:
    num = len(sequences)
    sets = [set(tokens) for tokens in sequences]
    means = [
        sum(1 - len(a & b) / len(a | b) for j, b in enumerate(sets) if j != i) / (num - 1)
        for i, a in enumerate(sets)
    ]
    total = sum(means)
    expected = [1 - strength + strength * num * d / total if total else 1.0 for d in means]
    weights = _weights(sequences, strength=strength, ngram=1)
    assert weights == pytest.approx(expected, abs=1e-6)
    assert np.mean(weights) == pytest.approx(1) and min(weights) >= 0


def test_the_odd_one_out_weighs_most() -> None:
    weights = _weights([[4, 5, 6], [4, 5, 6], [4, 5, 6], [7, 8, 9]], strength=1.0)
    assert weights == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


@over("rewards", [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, None, 0.0]])
def test_fewer_than_two_right_ones_leave_the_group_as_it_is(rewards: list[float | None]) -> None:
    assert _weights([[4, 5], [6, 7], [8, 9]], rewards) == [1, 1, 1]


def test_wrong_ones_are_weighed_only_where_all_are() -> None:
    sequences, rewards = [[4, 4], [4, 5], [6, 7], [8, 9]], [1.0, 1.0, 0.0, 0.0]
    weights = _weights(sequences, rewards, ngram=1)
    assert weights[2:] == [1, 1] and weights[:2] == pytest.approx([1, 1])
    everyone = _weights(sequences, rewards, ngram=1, of="all")
    assert everyone[0] < 1 < everyone[2]


def test_earlier_weights_are_multiplied() -> None:
    part, group = Novelty(strength=1.0, ngram=1), _group([[4], [4], [5]])
    once = part.apply(group, view=make.view())
    twice = part.apply(once, view=make.view())
    pairs = zip(once.signals, twice.signals, strict=True)
    assert all(b.weight == pytest.approx(a.weight**2) for a, b in pairs)


def test_in_a_run_right_rollouts_keep_their_share_of_the_update() -> None:
    filters = {"novelty": {"name": "novelty", "strength": 1.0, "ngram": 1}}
    batch = make.pipeline(strategies.load("grpo", filters=filters)).next_batch()
    varied = 0
    for group in batch.groups:
        right = group.raw_rewards_N >= 1
        weights = np.array([s.weight for s in group.signals])
        assert weights[right].sum() == pytest.approx(right.sum())
        assert (weights[~right] == 1).all()
        varied += float(np.ptp(weights)) > 0.1
    assert varied
