"""Whitened advantages: the law over a batch, whatever gave them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.whitened import Whitened
from gfcr.testing import factories as make
from tests.cases import over

ADVANTAGES = st.lists(st.floats(-2, 2, width=32), min_size=2, max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.lists(ADVANTAGES, min_size=1, max_size=4), st.sampled_from(["tokens", "rollouts"]))
def test_a_batch_has_mean_0_and_deviation_1(batch: list[list[float]], per: str) -> None:
    groups = [
        make.group_of([make.rollout(length=3 + i) for i in range(len(own))]).with_advantages(own)
        for own in batch
    ]
    part = Whitened(per="tokens" if per == "tokens" else "rollouts")
    made = part.map_batch(groups, view=make.view())
    repeats = [len(r) if per == "tokens" else 1 for g in made for r in g.rollouts]
    before, after = (
        np.repeat([float(s.advantage or 0) for g in of for s in g.signals], repeats)
        for of in (groups, made)
    )
    assert after.mean() == pytest.approx(0, abs=1e-4)
    if np.ptp(before) > 1e-3:
        assert part.metrics() == {"deviation": pytest.approx(before.std(ddof=1), rel=1e-3)}
        assert after.std(ddof=1) == pytest.approx(1, rel=1e-3)
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order]) >= -1e-6).all()


def test_steps_keep_their_order_and_rejected_rollouts_count_for_nothing() -> None:
    per_token = np.array([0.5, -0.5, 0.0], np.float32)
    group = make.group_of([make.rollout(length=3), make.rollout(length=3)])
    group = group.with_advantages([per_token, 9.0]).reject_rollouts([1], reason="x")
    (made,) = Whitened().map_batch([group], view=make.view())
    assert np.asarray(made.signals[0].advantage) == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)
    assert made.signals[1].advantage == 9.0


def test_it_is_no_map() -> None:
    plan = strategies.load("grpo", filters={"advantage": None, "whitened": {"name": "whitened"}})
    with pytest.raises(ConfigError, match="give no advantages"):
        plan.check()


@over("per", ["tokens", "rollouts"])
def test_without_spread_nothing_is_blown_up(per: Any) -> None:
    """Float noise between equal advantages, and tokens around an equal mean of each rollout."""
    noise = make.group([0.0, 0.0]).with_advantages([1e-8, -1e-8])
    steps_T = np.array([1.0, -1.0], np.float32)
    steps = make.group_of([make.rollout(length=2)]).with_advantages([steps_T])
    for group, largest in ((noise, 1e-6), (steps, 1.5)):
        (made,) = Whitened(per=per).map_batch([group], view=make.view())
        assert all(np.abs(np.asarray(s.advantage)).max() <= largest for s in made.signals)
