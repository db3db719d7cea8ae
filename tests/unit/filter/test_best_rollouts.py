"""Rejection sampling: what is kept of a group."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.best_rollouts import BestRollouts
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over

rollouts = st.lists(
    st.tuples(st.none() | st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abc")),
    min_size=1,
    max_size=9,
)


def best(given_: Any, *, seed: int = 0, **knobs: Any) -> Group:
    made = [make.rollout(i, reward=r, text=t) for i, (r, t) in enumerate(given_)]
    return BestRollouts(**knobs).apply(make.group_of(made), view=make.view(seed=seed))


@settings(max_examples=200, deadline=None)
@given(rollouts, st.sampled_from([0.5, 1.0]), st.integers(0, 3), st.booleans())
def test_the_best_that_are_right_and_new(
    given_: list[tuple[float | None, str]], least: float, keep: int, distinct: bool
) -> None:
    group = best(given_, least=least, keep=keep, distinct=distinct)
    chosen = [pair for pair, k in zip(given_, group.kept_N, strict=True) if k]
    right = [(r, t) for r, t in given_ if r is not None and r >= least]
    if distinct:
        assert len({t for _, t in chosen}) == len(chosen)
        right = [(max(r for r, t in right if t == text), text) for text in {t for _, t in right}]
    rewards = sorted((r for r, _ in right), reverse=True)
    expected = rewards[:keep] if keep else rewards
    assert sorted((r for r, _ in chosen if r is not None), reverse=True) == expected
    assert {s.advantage for s, k in zip(group.signals, group.kept_N, strict=True) if k} <= {1.0}


def test_the_reasons_say_why() -> None:
    group = best([(1.0, "a"), (0.0, "b")], keep=1)
    assert [s.rejected for s in group.signals] == [None, "not_right"]
    group = best([(1.0, "a"), (1.0, "a")])
    assert sorted(str(s.rejected) for s in group.signals) == ["None", "repeated"]
    group = best([(1.0, "a"), (1.0, "b")], keep=1)
    assert sorted(str(s.rejected) for s in group.signals) == ["None", "not_best"]


def test_ties_are_broken_at_random() -> None:
    seen = {
        int(np.flatnonzero(best([(1.0, t) for t in "abc"], seed=seed, keep=1).kept_N)[0])
        for seed in range(60)
    }
    assert seen == {0, 1, 2}


def test_all_wrong_leaves_nothing() -> None:
    assert not best([(0.0, "a"), (None, "b")]).kept_N.any()


@over("keep", [0, 2])
def test_the_strategy_fine_tunes_on_what_is_right_alone(keep: int) -> None:
    batch = make.pipeline(strategies.load("rft", keep=keep)).next_batch()
    assert len(batch.samples) == batch.metrics["filters.best/kept"] > 0
    assert all(s.rollout.reward == 1 for s in batch.samples)
    assert all((s.advantage_T == s.rollout.mask_T).all() for s in batch.samples)
    most = max(int(g.kept_N.sum()) for g in batch.accepted)
    assert most == keep if keep else most > 2
