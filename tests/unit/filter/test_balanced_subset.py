"""Reinforce-Ada's choice: balanced, and with the statistics of the whole pool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.filter.balanced_subset import BalancedSubset
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make


@given(right=st.integers(0, 20), wrong=st.integers(0, 20), keep=st.integers(2, 9))
def test_it_keeps_that_many_and_half_of_either_where_it_can(
    right: int, wrong: int, keep: int
) -> None:
    if not right + wrong:
        return
    group = make.group([1.0] * right + [0.0] * wrong)
    kept = BalancedSubset(keep=keep).apply(group, view=make.view())
    rewards = kept.rewards_N[kept.kept_N]
    assert len(rewards) == min(keep, right + wrong)
    assert rewards.sum() >= min(right, keep // 2)
    assert (rewards == 0).sum() >= min(wrong, keep // 2)


def test_behind_the_map_the_baseline_is_the_mean_of_all_32() -> None:
    pool = make.group([1.0] * 4 + [0.0] * 28)
    mapped = GroupAdvantage(kind="dr_grpo").apply(pool, view=make.view())
    chosen = BalancedSubset(keep=8).apply(mapped, view=make.view())
    rewards = chosen.rewards_N[chosen.kept_N]
    assert rewards.mean() == 0.5
    advantages = [s.advantage for s in chosen.signals if s.rejected is None]
    np.testing.assert_allclose(rewards - advantages, 4 / 32, atol=1e-6)


def test_before_the_map_the_statistics_are_the_subsets() -> None:
    chosen = BalancedSubset(keep=8).apply(make.group([1.0] * 4 + [0.0] * 28), view=make.view())
    mapped = GroupAdvantage(kind="dr_grpo").apply(chosen, view=make.view())
    assert {s.advantage for s in mapped.signals if s.rejected is None} == {0.5, -0.5}


def test_every_rollout_is_as_likely_as_its_equals() -> None:
    pool = make.group([1.0] * 4 + [0.0] * 12)
    counts = np.zeros(16)
    for step in range(600):
        counts += BalancedSubset(keep=4).apply(pool, view=make.view(step=step)).kept_N
    np.testing.assert_allclose(counts[:4] / 600, 2 / 4, atol=0.1)
    np.testing.assert_allclose(counts[4:] / 600, 2 / 12, atol=0.1)


def test_unscorable_rollouts_are_not_kept() -> None:
    pool = make.group([None, 1.0, None, 0.0, 1.0])
    kept = BalancedSubset(keep=4).apply(pool, view=make.view()).kept_N
    assert kept.tolist() == [False, True, False, True, True]


def test_one_rollout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"BalancedSubset\.keep=1"):
        BalancedSubset(keep=1)


def test_rollouts_are_drawn_by_the_prompt_and_a_reward_at_the_threshold_is_right() -> None:
    group = make.group([0.7, 0.7, 0.7, 0.6, 0.6, 0.6])
    kept = BalancedSubset(keep=4, threshold=0.7).apply(group, view=make.view()).kept_N
    order = make.view().rng("balanced_subset", group.prompt.id).permutation(6)
    right, wrong = [i for i in order if i < 3], [i for i in order if i >= 3]
    assert set(np.flatnonzero(kept)) == {*right[:2], *wrong[:2]}
