"""REINFORCE++ against the formula over the whole batch."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.reinforce_pp import ReinforcePp
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over

rewards = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(-2, 2, width=16)
batches = st.lists(
    st.lists(st.tuples(rewards, st.integers(1, 9)), min_size=1, max_size=5), min_size=1, max_size=4
)


def made(batch: list[list[tuple[float | None, int]]]) -> list[Group]:
    return [
        make.group_of([make.rollout(i, reward=r, length=n) for i, (r, n) in enumerate(group)])
        for group in batch
    ]


def mapped(part: ReinforcePp, groups: list[Group]) -> list[tuple[float, int]]:
    """Advantage and length of every kept rollout of the batch."""
    view = make.view()
    live = [part.apply(g, view=view) if g.kept_N.any() else g.reject("empty") for g in groups]
    done = part.map_batch([g for g in live if g.rejected is None], view=view)
    triples = [t for g in done for t in zip(g.rollouts, g.signals, g.kept_N, strict=True)]
    assert all((s.advantage is not None) == k for _, s, k in triples)
    return [(float(np.mean(s.advantage or 0)), len(r)) for r, s, k in triples if k]


@settings(max_examples=150, deadline=None)
@given(batches, st.sampled_from(["none", "group"]), st.sampled_from(["tokens", "rollouts"]))
def test_advantages_are_those_of_the_formula(batch: Any, baseline: Any, per: Any) -> None:
    part = ReinforcePp(baseline=baseline, per=per, epsilon=1e-4)
    found = mapped(part, made(batch))
    own: list[tuple[float, int]] = []
    for group in batch:
        kept = [(np.float32(r), n) for r, n in group if r is not None]
        base = float(np.mean([r for r, _ in kept])) if kept and baseline == "group" else 0.0
        own += [(float(r) - base, n) for r, n in kept]
    every = [a for a, n in own for _ in range(n if per == "tokens" else 1)]
    assert len(found) == len(own)
    if len(every) < 2 or np.ptp(every) <= 1e-5:
        assert all(abs(a) < 0.2 for a, _ in found)
        return
    mean, deviation = np.mean(every), np.std(every, ddof=1)
    expected = [(a - mean) / (deviation + 1e-4) for a, _ in own]
    assert [a for a, _ in found] == pytest.approx(expected, abs=1e-3)
    assert part.metrics() == pytest.approx({"mean": mean, "deviation": deviation}, abs=1e-4)


def test_per_token_the_tokens_sum_to_nothing_and_per_rollout_the_rollouts_do() -> None:
    batch = [[(1.0, 2), (0.0, 9)], [(0.0, 4), (0.0, 5)]]
    tokens = mapped(ReinforcePp(), made(batch))
    assert sum(a * n for a, n in tokens) == pytest.approx(0, abs=1e-4)
    assert abs(sum(a for a, _ in tokens)) > 0.1
    whole = mapped(ReinforcePp(per="rollouts"), made(batch))
    assert sum(a for a, _ in whole) == pytest.approx(0, abs=1e-4)


def test_a_dead_group_is_taught_only_without_the_group_s_baseline() -> None:
    groups = made([[(1.0, 4)] * 4, [(1.0, 4), (0.0, 4), (0.0, 4), (0.0, 4)]])
    assert {a > 0.5 for a, _ in mapped(ReinforcePp(), groups)[:4]} == {True}
    with_base = mapped(ReinforcePp(baseline="group"), groups)
    assert [a for a, _ in with_base[:4]] == pytest.approx([0.0] * 4, abs=1e-6)


def test_environment_tokens_do_not_count() -> None:
    mask_T = np.array([True, False, False, False])
    long = make.rollout(0, reward=1.0, length=4, mask_T=mask_T)
    group = make.group_of([long, make.rollout(1, reward=0.0, length=1)])
    assert [a for a, _ in mapped(ReinforcePp(), [group])] == pytest.approx(
        [0.707, -0.707], abs=1e-3
    )


def test_all_alike_teach_nothing_and_give_finite_numbers() -> None:
    assert mapped(ReinforcePp(), made([[(0.1, 3), (0.1, 5)]])) == [(0.0, 3), (0.0, 5)]
    assert mapped(ReinforcePp(), made([[(1.0, 1)]])) == [(0.0, 1)]
    assert list(ReinforcePp().map_batch([], view=make.view())) == []


@over("knobs", [{"group_size": 1}, {"baseline": "group"}, {}])
def test_an_update_s_advantages_have_mean_0_and_deviation_1(knobs: dict[str, Any]) -> None:
    pipeline = make.pipeline(strategies.load("reinforce_pp", **knobs), prompts=16)
    batch = pipeline.next_batch()
    every = np.concatenate([s.advantage_T[s.rollout.mask_T] for s in batch.samples])
    assert every.mean() == pytest.approx(0, abs=1e-4)
    assert every.std(ddof=1) == pytest.approx(1, abs=1e-2)
    assert batch.metrics["filters.advantage/deviation"] > 0
