"""Advantages of segments: differences of values, summing to the reward."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.segment_advantage import SegmentAdvantage
from gfcr.testing import factories as make

segments = st.lists(
    st.tuples(st.integers(1, 4), st.floats(-1, 1, width=16)), min_size=1, max_size=5
)


def scored(steps: list[tuple[int, float]], *, reward: float, numbered: bool, **knobs: Any) -> Any:
    """A rollout of segments, each with its length and the value it begins with."""
    lengths = [n for n, _ in steps]
    value_T = np.repeat([v for _, v in steps], lengths).astype(np.float32)
    rollout = make.rollout(reward=reward, length=sum(lengths), **knobs)
    group = make.group_of([rollout]).with_scores("value", [value_T])
    number_T = np.repeat(np.arange(len(steps)), lengths).astype(np.float32)
    return group.with_scores("segment", [number_T]) if numbered else group


@settings(max_examples=150, deadline=None)
@given(segments, st.sampled_from([0.0, 1.0]))
def test_a_segment_s_advantage_is_what_it_changed(steps: Any, reward: float) -> None:
    group = scored(steps, reward=reward, numbered=True)
    made = SegmentAdvantage().apply(group, view=make.view())
    (signal,) = made.signals
    values = [np.float32(v) for _, v in steps] + [np.float32(reward)]
    expected = [values[i + 1] - values[i] for i in range(len(steps))]
    assert signal.advantage == pytest.approx(np.repeat(expected, [n for n, _ in steps]), abs=1e-6)
    assert sum(expected) == pytest.approx(reward - values[0], abs=1e-5)
    assert made.values == {"segments": float(len(steps))}


def test_equal_values_are_one_segment_unless_they_are_numbered() -> None:
    steps = [(2, 0.5), (2, 0.5)]
    apart = SegmentAdvantage().apply(scored(steps, reward=1.0, numbered=True), view=make.view())
    assert apart.signals[0].advantage == pytest.approx([0, 0, 0.5, 0.5])
    as_one = SegmentAdvantage().apply(scored(steps, reward=1.0, numbered=False), view=make.view())
    assert as_one.signals[0].advantage == pytest.approx([0.5] * 4)


def test_only_unlikely_tokens_are_taught() -> None:
    group = scored(
        [(4, 0.25)], reward=1.0, numbered=True, logprobs=np.log([0.99, 0.5, 0.9, 0.1]).tolist()
    )
    (signal,) = SegmentAdvantage(unlikely=0.9).apply(group, view=make.view()).signals
    assert signal.advantage == pytest.approx([0, 0.75, 0.75, 0.75])


def test_without_values_the_baseline_is_the_group_s_mean() -> None:
    rewards = make.group([1.0, 0.0, None, 0.0])
    group = SegmentAdvantage().apply(rewards, view=make.view())
    found = [None if s.advantage is None else float(np.mean(s.advantage)) for s in group.signals]
    assert found == [pytest.approx(2 / 3), pytest.approx(-1 / 3), None, pytest.approx(-1 / 3)]
    assert group.values == {"segments": 1.0}


def test_it_reads_the_scores_that_it_is_told_to() -> None:
    group = scored([(2, 0.5), (2, 0.0)], reward=1.0, numbered=False)
    group = group.with_scores("prm", [np.array([0, 0, 0, 1], np.float32)])
    (signal,) = SegmentAdvantage(value="prm").apply(group, view=make.view()).signals
    assert signal.advantage == pytest.approx([1, 1, 1, 0])


def test_it_is_a_map_of_a_strategy() -> None:
    filters = {"advantage": {"name": "segment_advantage"}}
    batch = make.pipeline(strategies.load("grpo", filters=filters)).next_batch()
    assert batch.samples and batch.metrics["group/segments"] == 1
