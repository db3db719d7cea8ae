"""Keeping and weighing by surprisal, against sorting by hand."""

from math import ceil, exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.trajectory_entropy import TrajectoryEntropy
from gfcr.testing import factories as make
from gfcr.types import Group

SURPRISALS = st.lists(st.integers(0, 8).map(lambda s: s / 4), min_size=1, max_size=9)


def _group(surprisals: list[float], rewards: list[float | None] | None = None) -> Group:
    pairs = zip(surprisals, rewards or [1.0] * len(surprisals), strict=True)
    rollouts = [make.rollout(i, logprobs=[-s] * 4, reward=r) for i, (s, r) in enumerate(pairs)]
    return make.group_of(rollouts)


def _after(surprisals: list[float], rewards: Any = None, **values: Any) -> Group:
    return TrajectoryEntropy(**values).apply(_group(surprisals, rewards), view=make.view())


@settings(max_examples=200, deadline=None)
@given(SURPRISALS, st.sampled_from([0.1, 0.25, 0.5, 0.6, 1.0]), st.sampled_from(["low", "high"]))
def test_those_kept_are_the_extreme_share(
    surprisals: list[float], share: float, prefer: Any
) -> None:
    after = _after(surprisals, share=share, prefer=prefer)
    kept = sorted(s for s, keep in zip(surprisals, after.kept_N, strict=True) if keep)
    num = ceil(round(share * len(surprisals), 6))
    ordered = sorted(surprisals)
    assert kept == (ordered[:num] if prefer == "low" else ordered[-num:])
    assert {s.rejected for s in after.signals} <= {None, "trajectory_entropy"}


@settings(max_examples=200, deadline=None)
@given(SURPRISALS, st.sampled_from([0.1, 1.0, 5.0]), st.sampled_from([("low", -1), ("high", 1)]))
def test_weights_are_a_softmax_of_mean_one(
    surprisals: list[float], temperature: float, prefer: tuple[Any, int]
) -> None:
    after = _after(surprisals, how="weight", temperature=temperature, prefer=prefer[0])
    powers = [exp(prefer[1] * s / temperature) for s in surprisals]
    expected = [len(powers) * p / sum(powers) for p in powers]
    weights = [s.weight for s in after.signals]
    assert weights == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert np.mean(weights) == pytest.approx(1)


def test_surprisal_is_the_mean_over_what_was_sampled() -> None:
    mask = np.array([True, False, True, True])
    rollout = make.rollout(logprobs=[-1.0, 0.0, -2.0, -3.0], mask_T=mask)
    nothing = make.rollout(1, length=0)
    group = make.group_of([rollout, nothing])
    after = TrajectoryEntropy().apply(group, view=make.view())
    assert [s.scores["surprisal"] for s in after.signals] == [2.0, 0.0]


def test_wrong_rollouts_stay_unless_all_are_looked_at() -> None:
    surprisals, rewards = [0.1, 0.2, 0.3, 0.4], [1.0, 1.0, 0.0, 0.0]
    assert _after(surprisals, rewards).kept_N.tolist() == [True, False, True, True]
    assert _after(surprisals, rewards, of="all").kept_N.tolist() == [True, True, False, False]


def test_where_none_is_right_only_the_score_is_added() -> None:
    after = _after([0.1, 0.2], [0.0, None])
    assert after.kept_N.tolist() == [True, False] and after.signals[0].weight == 1
    assert set(after.signals[0].scores) == {"surprisal"}


def test_a_cold_softmax_stays_finite() -> None:
    after = _after([0.0, 50.0, 90.0], how="weight", temperature=1e-9)
    assert [s.weight for s in after.signals] == [3, 0, 0]


def test_in_a_run_the_surest_right_half_is_trained_with_the_group_s_advantages() -> None:
    filters = {"entropy": {"name": "trajectory_entropy"}}
    batch = make.pipeline(strategies.load("grpo", filters=filters)).next_batch()
    assert batch.metrics["rejected/trajectory_entropy"] > 0
    assert batch.metrics["score/surprisal"] > 0
    for group in batch.groups:
        right = group.raw_rewards_N >= 1
        costs = np.array([-r.logprobs_T.mean() for r in group.rollouts])
        assert int((group.kept_N & right).sum()) == ceil(right.sum() / 2)
        kept, out = costs[group.kept_N & right], costs[~group.kept_N & right]
        assert kept.max(initial=-1) <= out.min(initial=99)
        assert group.kept_N[~right].all()
