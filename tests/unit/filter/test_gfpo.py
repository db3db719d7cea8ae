"""GFPO: which rollouts of a group are kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.gfpo import Gfpo
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def kept(rollouts: list[tuple[float | None, int]], seed: int = 0, **knobs: Any) -> Group:
    made = [make.rollout(i, reward=r, length=n) for i, (r, n) in enumerate(rollouts)]
    return Gfpo(**knobs).apply(make.group_of(made), view=make.view(seed=seed))


rollouts = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.5]), st.integers(1, 30)), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None)
@given(rollouts, st.integers(2, 12))
def test_no_rollout_left_out_is_shorter(given_: Any, keep: int) -> None:
    group = kept(given_, keep=keep)
    lengths = np.array([n for _, n in given_])
    assert group.kept_N.sum() == min(keep, len(given_))
    if not group.kept_N.all():
        assert lengths[group.kept_N].max() <= lengths[~group.kept_N].min()
    assert group.values["kept_length"] == pytest.approx(lengths[group.kept_N].mean())


@settings(max_examples=150, deadline=None)
@given(rollouts, st.integers(2, 12))
def test_no_rollout_left_out_is_more_efficient(given_: Any, keep: int) -> None:
    group = kept(given_, keep=keep, metric="efficiency")
    per_token = np.array([r / n for r, n in given_])
    assert group.kept_N.sum() == min(keep, len(given_))
    if not group.kept_N.all():
        assert per_token[group.kept_N].min() >= per_token[~group.kept_N].max() - 1e-6


def test_ties_are_broken_at_random() -> None:
    seen = {tuple(kept([(1.0, 5)] * 4, seed=seed, keep=2).kept_N.tolist()) for seed in range(60)}
    assert len(seen) == 6


def test_environment_tokens_and_unscorable_rollouts_do_not_count() -> None:
    mask_T = np.arange(20) < 2
    tool = make.rollout(0, reward=1.0, length=20, mask_T=mask_T)
    others = [
        make.rollout(i, reward=r, length=n)
        for i, (r, n) in enumerate([(None, 1), (0.0, 5), (0.0, 9)], 1)
    ]
    group = Gfpo(keep=2).apply(make.group_of([tool, *others]), view=make.view())
    assert group.kept_N.tolist() == [True, False, True, False]


def test_the_map_behind_it_compares_the_kept() -> None:
    group = kept([(1.0, 2), (0.0, 3), (1.0, 30), (1.0, 31)], keep=2)
    group = GroupAdvantage(kind="dr_grpo").apply(group, view=make.view())
    assert [s.advantage for s in group.signals] == [0.5, -0.5, None, None]


@over("metric", ["shortest", "efficiency"])
def test_the_strategy_trains_k_of_g(metric: str) -> None:
    batch = make.pipeline(
        strategies.load("gfpo", group_size=12, keep=3, metric=metric)
    ).next_batch()
    assert len(batch.samples) == 3 * 8 and batch.metrics["rejected/gfpo"] == 9 * 8
    trained = np.mean([len(s.rollout) for s in batch.samples])
    every = np.mean([len(r) for g in batch.groups for r in g.rollouts])
    assert trained < every
