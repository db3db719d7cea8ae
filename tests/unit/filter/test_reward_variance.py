"""VCRL's normalised variance against brute force over all groups."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.reward_variance import RewardVariance
from gfcr.testing import factories as make
from tests.cases import over


def _share(rewards: list[float], **values: float) -> float:
    part = RewardVariance(**values)  # pyright: ignore[reportArgumentType]
    return part.apply(make.group(list(rewards)), view=make.view()).values["reward_variance"]


@over("size", [2, 3, 4, 5, 8])
def test_it_is_the_share_of_the_largest_variance_of_any_group(size: int) -> None:
    largest = max(np.var(r, ddof=1) for r in product([0.0, 1.0], repeat=size))
    for right in range(size + 1):
        rewards = [1.0] * right + [0.0] * (size - right)
        assert _share(rewards) == pytest.approx(np.var(rewards, ddof=1) / largest)


@over("right", range(9))
def test_of_eight_it_is_the_parabola_of_the_success_rate(right: int) -> None:
    rewards = [1.0] * right + [0.0] * (8 - right)
    assert _share(rewards) == pytest.approx(4 * right * (8 - right) / 64)


@given(st.lists(st.floats(-2, 3), min_size=2, max_size=9))
def test_rewards_between_any_two_bounds_give_a_share(rewards: list[float]) -> None:
    share = _share(rewards, low=-2.0, high=3.0)
    assert -1e-6 <= share <= 1 + 1e-6
    moved = [(r + 2) / 5 for r in rewards]
    assert _share(moved) == pytest.approx(share, abs=1e-5)


@over(
    ("right", "step", "kept"),
    [(0, 0, False), (1, 0, True), (1, 19, True), (1, 20, False), (2, 20, False), (3, 20, True)],
)
def test_the_threshold_rises(right: int, step: int, kept: bool) -> None:
    group = make.group([1.0] * right + [0.0] * (8 - right))
    after = RewardVariance().apply(group, view=make.view(step=step))
    assert (after.rejected is None) == kept
    assert kept or after.rejected == "reward_variance"


def test_a_share_at_the_threshold_is_kept() -> None:
    group = make.group([1.0, 0.0, 0.0, 0.0])
    assert RewardVariance(kappa=0.75).apply(group, view=make.view()).rejected is None


def test_one_rollout_that_is_left_has_no_variance() -> None:
    group = make.group([1.0, None, None])
    after = RewardVariance().apply(group, view=make.view())
    assert after.rejected == "reward_variance" and after.values == {"reward_variance": 0.0}


def test_what_could_not_work_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reward_variance\.low=1 is not below .*high=1"):
        RewardVariance(low=1.0)


def test_in_a_run_only_groups_that_vary_are_trained() -> None:
    filters = {"variance": {"name": "reward_variance", "kappa": 0.8}}
    batch = make.pipeline(strategies.load("grpo", filters=filters)).next_batch()
    for group in batch.groups:
        right = int(group.raw_rewards_N.sum())
        assert (group.rejected is None) == (3 <= right <= 5)
    assert {g.rejected for g in batch.groups} == {None, "reward_variance"}
