"""D3S: rollouts and tokens, by brute force, and the schedules."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.correction.base import Learned
from gfcr.correction.d3s import D3s as Tokens
from gfcr.filter.d3s import D3s
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make


def learned(entropies: list[float], *, advantage: float, version: int = 0) -> Learned:
    """A rollout whose second token is the environment's."""
    mask_T = np.array([i != 1 for i in range(len(entropies))])
    rollout = make.rollout(length=len(entropies), mask_T=mask_T)
    return Learned(
        rollout=rollout,
        advantage_T=np.where(mask_T, np.float32(advantage), np.float32(0)),
        logprobs_T=rollout.logprobs_T,
        version=version,
        entropies_T=np.where(mask_T, np.float32(entropies), np.float32(0)),
    )


updates = st.lists(
    st.tuples(st.lists(st.floats(0, 4), min_size=1, max_size=9), st.floats(-2, 2)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(updates, st.floats(0.01, 1))
def test_no_token_left_out_weighs_more(
    given_: list[tuple[list[float], float]], share: float
) -> None:
    update = [learned(entropies, advantage=a) for entropies, a in given_]
    part = Tokens(first=share, last=share)
    kept, others = list[float](), list[float]()
    for answer, each in zip(part.correct(update), update, strict=True):
        assert answer.mask_T is not None and not (answer.mask_T & ~each.rollout.mask_T).any()
        weights_T = np.abs(each.advantage_T) * each.entropies_T
        kept += weights_T[answer.mask_T].tolist()
        others += weights_T[each.rollout.mask_T & ~answer.mask_T].tolist()
    assert len(kept) == int(np.ceil(share * (len(kept) + len(others)) - 1e-9))
    assert not others or min(kept) >= max(others)
    assert part.metrics()["kept"] == len(kept) / (len(kept) + len(others))


def test_both_schedules_go_from_tight_to_loose() -> None:
    tokens, rollouts = Tokens(first=0.1, last=0.3, updates=10), D3s(first=2, last=6, updates=10)
    assert [tokens.share(v) for v in (0, 5, 10, 99)] == pytest.approx([0.1, 0.2, 0.3, 0.3])
    assert [rollouts.num(s) for s in (0, 5, 10, 99)] == [2, 4, 6, 6]
    for version, num in ((0, 1), (10, 3)):
        (answer,) = tokens.correct([learned([1.0] * 11, advantage=1.0, version=version)])
        assert answer.mask_T is not None and answer.mask_T.sum() == num


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1, 1, width=16) | st.sampled_from([0.0, 1.0]), min_size=2, max_size=9))
def test_no_subset_of_the_group_varies_more(rewards: list[float]) -> None:
    view = make.view()
    group = GroupAdvantage().apply(make.group(rewards), view=view)
    group = D3s(first=3).apply(group, view=view)
    every = [float(s.advantage) for s in group.signals if s.advantage is not None]  # pyright: ignore
    chosen = [a for a, k in zip(every, group.kept_N, strict=True) if k]
    size = min(3, len(rewards))
    assert len(chosen) == size
    best = max(float(np.var(subset)) for subset in combinations(every, size))
    assert np.var(chosen) == pytest.approx(best, abs=1e-5)


def test_before_the_map_rewards_are_looked_at() -> None:
    group = D3s(first=2).apply(make.group([0.5, 1.0, None, 0.25, 0.0]), view=make.view())
    assert group.kept_N.tolist() == [False, True, False, False, True]


def test_the_strategy_trains_more_of_each_group_as_updates_pass() -> None:
    changes: Any = {"d3s": {"first": 2, "last": 6}}
    plan = strategies.load("d3s", updates=2, filters=changes)
    pipeline = make.pipeline(plan, prompts=4)
    kept: list[int] = []
    for version in range(4):
        pipeline.sync((), version=version)
        batch = pipeline.next_batch()
        kept.append(len(batch.samples))
        assert batch.metrics["rejected/d3s"] == 4 * 8 - kept[-1]
    assert kept == [8, 16, 24, 24]
