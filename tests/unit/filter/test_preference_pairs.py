"""Preference pairs: the best and the worst of a group."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.preference_pairs import PreferencePairs
from gfcr.testing import factories as make
from gfcr.train.shares import pairs

rewards = st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=8).filter(
    lambda given_: any(r is not None for r in given_)
)


@settings(max_examples=150, deadline=None)
@given(rewards, st.sampled_from([0.0, 0.5, 0.9]))
def test_a_pair_is_the_best_and_the_worst_or_nothing(
    given_: list[float | None], margin: float
) -> None:
    part = PreferencePairs(margin=margin)
    group = part.apply(make.group(given_), view=make.view())
    known = [r for r in given_ if r is not None]
    if max(known) - min(known) <= margin:
        assert group.rejected == "no_preference" and part.metrics() == {"pairs": 0.0}
        return
    marks = {
        s.advantage: r for s, r in zip(group.signals, given_, strict=True) if s.rejected is None
    }
    assert marks == {1.0: max(known), -1.0: min(known)}
    assert group.kept_N.sum() == 2 and part.metrics() == {"pairs": 1.0}
    assert {s.rejected for s in group.signals} <= {None, "neither", "unscorable", "not_judged"}


def test_ties_are_broken_at_random() -> None:
    seen = set[tuple[int, ...]]()
    for seed in range(80):
        group = PreferencePairs().apply(make.group([1.0, 1.0, 0.0, 0.0]), view=make.view(seed=seed))
        seen.add(tuple(np.flatnonzero(group.kept_N).tolist()))
    assert seen == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_the_strategy_gives_the_trainer_pairs_of_right_and_wrong() -> None:
    pipeline = make.pipeline(strategies.load("dpo"))
    batches = [pipeline.next_batch() for _ in range(3)]
    found = [pair for b in batches for pair in pairs(b.samples)]
    assert len(found) == batches[-1].metrics["filters.pair/pairs"] > 0
    assert all(good.rollout.reward == 1 and bad.rollout.reward == 0 for good, bad in found)
    assert all(good.rollout.prompt is bad.rollout.prompt for good, bad in found)
