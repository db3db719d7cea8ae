"""PODS against brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.pods import Pods
from gfcr.testing import factories as make


def _kept(rewards: list[float | None], *, keep: int) -> list[float]:
    group = Pods(keep=keep).apply(make.group(rewards), view=make.view())
    return [float(r) for r in group.rewards_N[group.kept_N]]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=16) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=12),
    st.integers(2, 12),
)
def test_no_subset_varies_more(rewards: list[float], keep: int) -> None:
    chosen = _kept(list(rewards), keep=keep)
    size = min(keep, len(rewards))
    assert len(chosen) == size
    best = max(float(np.var(subset)) for subset in combinations(rewards, size))
    assert np.var(chosen) == pytest.approx(best, abs=1e-9)


def test_unscorable_rollouts_are_never_chosen() -> None:
    assert sorted(_kept([0.0, None, 1.0, 0.0, None, 1.0], keep=2)) == [0.0, 1.0]


def test_a_map_behind_it_uses_the_subset() -> None:
    group = Pods(keep=2).apply(make.group([1.0, 0.0, 0.0, 0.0]), view=make.view())
    group = GroupAdvantage(kind="dr_grpo").apply(group, view=make.view())
    advantages = [s.advantage for s in group.signals if s.rejected is None]
    assert sorted(advantages) == [-0.5, 0.5]


def test_the_strategy_trains_keep_of_each_group_and_counts_the_rest() -> None:
    pipeline = make.pipeline(strategies.load("pods", group_size=12, keep=4))
    batch = pipeline.next_batch()
    assert len(batch.samples) == 4 * 8
    assert batch.metrics["rejected/pods"] == 8 * 8
    # Half of the four are right, where the group has as many of either kind.
    for group in batch.groups:
        right = int(group.raw_rewards_N.sum())
        wrong = len(group.rollouts) - right
        assert group.rewards_N[group.kept_N].sum() == min(right, max(2, 4 - wrong))


def test_one_rollout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Pods\.keep=1"):
        Pods(keep=1)
