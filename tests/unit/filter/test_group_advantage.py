"""Laws of the group-relative advantages."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from tests.cases import over

KINDS = ["grpo", "dr_grpo", "rloo", "maxrl"]
REWARDS = st.lists(st.floats(-2, 2, width=16), min_size=2, max_size=12)


def _advantages(kind: str, rewards: list[float | None]) -> list[float | None]:
    group = GroupAdvantage(kind=kind).apply(make.group(rewards), view=make.view())
    return [s.advantage for s in group.signals]


@given(REWARDS)
def test_rloo_is_the_reward_less_the_mean_of_the_others(rewards: list[float]) -> None:
    got = _advantages("rloo", list(rewards))
    for i, advantage in enumerate(got):
        others = [r for j, r in enumerate(rewards) if j != i]
        assert advantage == pytest.approx(rewards[i] - np.mean(others), abs=1e-5)


@given(REWARDS)
def test_rloo_is_dr_grpo_stretched(rewards: list[float]) -> None:
    size = len(rewards)
    stretched = [size / (size - 1) * float(a or 0) for a in _advantages("dr_grpo", list(rewards))]
    assert _advantages("rloo", list(rewards)) == pytest.approx(stretched, abs=1e-5)


@given(REWARDS, st.sampled_from(["grpo", "dr_grpo", "rloo"]))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float], kind: str) -> None:
    assert sum(map(float, _advantages(kind, list(rewards)))) == pytest.approx(0, abs=2e-3)


@given(REWARDS, st.floats(0.5, 4), st.floats(-3, 3))
def test_dr_grpo_ignores_shift_and_keeps_scale(
    rewards: list[float], scale: float, shift: float
) -> None:
    moved = _advantages("dr_grpo", [scale * r + shift for r in rewards])
    expected = [scale * float(a or 0) for a in _advantages("dr_grpo", list(rewards))]
    assert moved == pytest.approx(expected, abs=1e-4)


def test_grpo_has_unit_deviation_whatever_the_scale() -> None:
    for scale in (0.1, 1.0, 10.0):
        got = np.array(_advantages("grpo", [0.0, scale, scale, 3 * scale]), np.float64)
        assert got.std(ddof=1) == pytest.approx(1, abs=2e-3)


@over("kind", KINDS)
def test_unscorable_rollouts_neither_get_an_advantage_nor_move_the_baseline(kind: str) -> None:
    with_gap = _advantages(kind, [1.0, None, 0.0, 0.0])
    assert with_gap[1] is None
    assert [a for a in with_gap if a is not None] == _advantages(kind, [1.0, 0.0, 0.0])


@over("size", [2, 3, 8])
@over("p", [0.02, 0.3, 0.9])
def test_maxrl_follows_the_first_terms_of_the_log_likelihood(size: int, p: float) -> None:
    expected = {"maxrl": 0.0, "dr_grpo": 0.0}
    for right in range(size + 1):
        rewards, scores_N = [1.0] * right + [0.0] * (size - right), np.full(size, 1 / (p - 1))
        scores_N[:right] = 1 / p  # the gradient by p of a sample's log-probability
        likely = math.comb(size, right) * p**right * (1 - p) ** (size - right)
        for kind in expected:
            got_N = np.array(_advantages(kind, list(rewards)), float)
            expected[kind] += likely * float(got_N @ scores_N) / size
    terms = [(1 - p) ** (k - 1) for k in range(1, size)]  # of log p = -sum (1 - p)^k / k
    assert expected["maxrl"] == pytest.approx(sum(terms), rel=1e-5)
    assert expected["dr_grpo"] == pytest.approx((size - 1) / size, rel=1e-5)
    worst, none = [0.3, *[0.3 / (1 - size)] * (size - 1)], [-1.0, *[-0.5] * (size - 1)]
    assert np.abs(_advantages("maxrl", list(worst))).max() <= size, (
        "penalties, and a mean of about 0"
    )
    assert _advantages("maxrl", list(none)) == [0.0] * size, "nothing is right"


@given(st.floats(-2, 2), st.integers(2, 12), st.sampled_from(KINDS))
@example(0.3, 6, "grpo")
def test_equal_rewards_teach_nothing_to_the_last_bit(reward: float, size: int, kind: str) -> None:
    assert _advantages(kind, [reward] * size) == [0.0] * size


def test_a_group_of_one_has_no_baseline() -> None:
    for kind in KINDS:
        assert _advantages(kind, [0.7]) == pytest.approx([0.7 if kind == "rloo" else 0.0])


@over("name", KINDS[1:])
def test_strategies_train_with_their_formula(name: str) -> None:
    batch = make.pipeline(strategies.load(name, group_size=4)).next_batch()
    samples = {s.rollout.id: s.advantage_T for s in batch.samples}
    for group in batch.accepted:
        expected = _advantages(name, [r.reward for r in group.rollouts])
        for rollout, advantage in zip(group.rollouts, expected, strict=True):
            np.testing.assert_allclose(samples[rollout.id], advantage, atol=1e-6)


def test_epsilon_is_added_to_the_deviation() -> None:
    group = GroupAdvantage(epsilon=0.5).apply(make.group([0.0, 1.0, 2.0]), view=make.view())
    assert [s.advantage for s in group.signals] == pytest.approx([-1 / 1.5, 0, 1 / 1.5])
