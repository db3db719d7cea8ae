"""The group-relative length reward: its bounds, its sign, and what it leaves alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.kimi_length import KimiLength
from gfcr.testing import factories as make
from gfcr.types import Group

answers = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, None]), st.integers(1, 30)), min_size=1, max_size=8
)


def shaped(answers: list[tuple[float | None, int]], *, weight: float = 1.0) -> Group:
    rollouts = [make.rollout(i, reward=r, length=n) for i, (r, n) in enumerate(answers)]
    return KimiLength(weight=weight).apply(make.group_of(rollouts), view=make.view())


@given(answers)
def test_the_bonus_is_the_paper_s(answers: list[tuple[float | None, int]]) -> None:
    scored = [n for reward, n in answers if reward is not None]
    for (reward, n), got in zip(answers, shaped(answers).rewards_N, strict=True):
        if reward is None:
            assert np.isnan(got)
            continue
        span = max(scored) - min(scored)
        lam = 0.5 - (n - min(scored)) / span if span else 0.0
        assert got == pytest.approx(reward + (lam if reward else min(0.0, lam)))


@given(answers)
def test_no_wrong_answer_gains_and_none_overtakes_a_right_one(
    answers: list[tuple[float | None, int]],
) -> None:
    got = shaped(answers).rewards_N
    right = [g for (r, _), g in zip(answers, got, strict=True) if r == 1.0]
    wrong = [g for (r, _), g in zip(answers, got, strict=True) if r == 0.0]
    assert all(g <= 0 for g in wrong)
    assert not right or not wrong or min(right) >= 0.5 > max(wrong)


def test_the_shortest_right_one_gets_half_the_longest_loses_half() -> None:
    group = shaped([(1.0, 10), (1.0, 20), (1.0, 30)], weight=0.4)
    assert group.rewards_N.tolist() == pytest.approx([1.2, 1.0, 0.8])


def test_what_an_earlier_filter_rejected_sets_no_bounds() -> None:
    rollouts = [make.rollout(i, length=n) for i, n in enumerate((4, 8, 400))]
    group = make.group_of(rollouts).reject_rollouts([2], reason="gate")
    got = KimiLength().apply(group, view=make.view()).rewards_N
    assert got.tolist() == pytest.approx([1.5, 0.5, 1.0])


def test_the_strategy_trains_all_right_groups_for_length() -> None:
    plan = strategies.load("kimi_length")
    pipeline = make.pipeline(plan, task=make.CoinTask(rates=(1.0,)))
    batch = pipeline.next_batch()
    for sample in batch.samples:
        own = [s for s in batch.samples if s.rollout.group_id == sample.rollout.group_id]
        middle = np.mean([len(s.rollout) for s in own])
        gap = middle - len(sample.rollout)
        assert abs(gap) < 1e-6 or np.sign(sample.advantage_T[0]) == np.sign(gap)
        # Rewards less their mean, as in the paper: over their deviation, length would count for as
        # much here as being right does elsewhere.
        lengths = [len(s.rollout) for s in own]
        wanted = gap / max(np.ptp(lengths), 1)
        assert sample.advantage_T[0] == pytest.approx(wanted, abs=1e-6)
    assert any(s.advantage_T.any() for s in batch.samples)
