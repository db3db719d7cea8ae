"""CPPO: what is pruned, by brute force."""

from collections import Counter
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.cppo import Cppo
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def pruned(rewards: list[float | None], *, prune: float, seed: int = 0) -> Group:
    view = make.view(seed=seed)
    group = GroupAdvantage().apply(make.group(rewards), view=view)
    return Cppo(prune=prune).apply(group, view=view)


def sizes(group: Group, which: Any) -> list[float]:
    return sorted(abs(s.advantage) for s, k in zip(group.signals, which, strict=True) if k)  # pyright: ignore


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=16) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=12),
    st.floats(0, 0.95),
)
def test_no_pruned_rollout_has_a_larger_advantage(rewards: list[float], prune: float) -> None:
    group = pruned([*rewards], prune=prune)
    kept = group.kept_N
    assert kept.sum() == max(floor(len(rewards) * (1 - prune) + 1e-9), 1)
    if not kept.all():
        assert sizes(group, ~kept)[-1] <= sizes(group, kept)[0] + 1e-5
    assert {s.rejected for s in group.signals} <= {None, "cppo"}


def test_the_share_is_taken_exactly() -> None:
    for size, prune, left in ((10, 0.9, 1), (16, 0.9375, 1), (16, 0.5, 8), (10, 0.7, 3)):
        assert pruned([1.0, *[0.0] * (size - 1)], prune=prune).kept_N.sum() == left


def test_ties_are_broken_at_random() -> None:
    """With rewards evenly split every |A| is equal: each rollout is kept half of the time."""
    counts: Counter[int] = Counter()
    for seed in range(400):
        kept = pruned([1.0, 0.0] * 4, prune=0.5, seed=seed).kept_N
        counts.update(np.flatnonzero(kept).tolist())
    assert set(counts) == set(range(8))
    assert all(abs(c - 200) < 60 for c in counts.values())  # six deviations


def test_rare_kinds_stay() -> None:
    group = pruned([1.0, *[0.0] * 7], prune=0.5)
    assert group.kept_N[0] and group.kept_N.sum() == 4


def test_advantages_stay_those_of_the_whole_group() -> None:
    whole = GroupAdvantage().apply(make.group([1.0, 0.0, 0.0, 0.0]), view=make.view())
    group = pruned([1.0, 0.0, 0.0, 0.0], prune=0.5)
    assert [s.advantage for s in group.signals] == [s.advantage for s in whole.signals]


def test_before_the_map_it_keeps_the_same_and_their_statistics() -> None:
    rewards = [1.0, 0.25, 0.0, 0.5, None, 0.75]
    behind = pruned([*rewards], prune=0.4)
    before = Cppo(prune=0.4).apply(make.group(rewards), view=make.view())
    assert before.kept_N.tolist() == behind.kept_N.tolist()
    assert before.kept_N[[0, 2]].all() and before.kept_N.sum() == 3
    assert all(s.advantage is None for s in before.signals)


def test_advantages_per_token_count_by_their_mean_size() -> None:
    group = make.group([1.0, 1.0]).with_advantages([np.array([1, -1, 0, 0], np.float32), 0.4])
    assert Cppo().apply(group, view=make.view()).kept_N.tolist() == [True, False]


def test_unscorable_rollouts_do_not_count() -> None:
    group = pruned([None, 1.0, 0.0, None, 0.0, 0.0], prune=0.5)
    assert group.kept_N.sum() == 2 and group.kept_N[1]
    assert pruned([None, None, 1.0, 0.0], prune=0.75).kept_N.sum() == 1


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"prune=1\.0"):
        Cppo(prune=1.0)


@over(("changes", "prompts"), [({}, 32), ({"pack": None}, 8)])
def test_an_update_is_as_large_as_without_pruning(changes: Any, prompts: int) -> None:
    plan = strategies.load("cppo", group_size=8, prune=0.75, controls=changes)
    batch = make.pipeline(plan).next_batch()
    assert len(batch.groups) == prompts and len(batch.samples) == 2 * prompts
    assert batch.metrics["rejected/cppo"] == 6 * prompts


def test_every_update_has_the_same_room() -> None:
    pipeline = make.pipeline(strategies.load("cppo", group_size=4, prune=0.5), prompts=3)
    for version in range(3):
        pipeline.sync((), version=version)
        batch = pipeline.next_batch()
        assert len(batch.accepted) == 6 == batch.metrics["controls.pack/target"]
    again = make.pipeline(strategies.load("cppo", group_size=4, prune=0.5), prompts=3)
    again.load_state_dict(pipeline.state_dict())
    assert len(again.next_batch().accepted) == 6


def test_a_packed_update_that_refills_is_raised_once() -> None:
    changes = {
        "filters": {"live": {"name": "zero_variance"}},
        "controls": {"refill": {"name": "refill"}},
    }
    plan = strategies.load("cppo", group_size=4, prune=0.5, **changes)
    batch = make.pipeline(plan, task=make.CoinTask(rates=(0.0, 0.5)), prompts=3).next_batch()
    assert len(batch.accepted) == 6 < len(batch.groups)
