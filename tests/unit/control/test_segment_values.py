"""SPO-chain: where segments begin, and that values are means of verified continuations."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.segment_values import SegmentValues
from gfcr.testing import factories as make
from tests.cases import over


@over(
    ("probabilities", "interval", "cuts"),
    [
        ([0.99, 0.5, 0.99, 0.5, 0.5, 0.99, 0.5], 2, [1, 4]),
        ([0.5, 0.5, 0.5, 0.5], 2, [2]),
        ([0.5, 0.5, 0.5, 0.5], 1, [1, 2, 3]),
        ([0.95, 0.95, 0.9], 1, []),
    ],
)
def test_every_so_many_unlikely_tokens_begin_a_segment(
    probabilities: list[float], interval: int, cuts: list[int]
) -> None:
    logprobs = np.log(probabilities).tolist()
    rollout = make.rollout(length=len(logprobs), logprobs=logprobs)
    part = SegmentValues(interval=interval, unlikely=0.9 - 1e-6)
    assert part.cuts(rollout, make.view()) == cuts


@given(st.lists(st.floats(-3, -0.001), min_size=1, max_size=40), st.integers(1, 6))
def test_segments_hold_equally_many_unlikely_tokens(logprobs: list[float], interval: int) -> None:
    rollout = make.rollout(length=len(logprobs), logprobs=logprobs)
    part = SegmentValues(interval=interval, most_segments=100)
    cuts = part.cuts(rollout, make.view())
    unlikely = np.flatnonzero(np.exp(rollout.logprobs_T) < 0.9)
    assert {*cuts} == {*unlikely[::interval].tolist()} - {0}


def test_tokens_of_the_environment_begin_nothing() -> None:
    mask_T = np.array([True, False, True, False])
    rollout = make.rollout(length=4, logprobs=[-2.0, 0.0, -2.0, 0.0], mask_T=mask_T)
    assert SegmentValues(interval=1).cuts(rollout, make.view()) == [2]


def test_the_bound_thins_them() -> None:
    rollout = make.rollout(length=50, logprobs=[-2.0] * 50)
    assert len(SegmentValues(interval=1, most_segments=5).cuts(rollout, make.view())) == 4


def test_advantages_are_differences_of_values_at_unlikely_tokens() -> None:
    knobs: dict[str, Any] = {"samples": 4, "interval": 3, "group_size": 3}
    pipeline = make.pipeline(
        strategies.load("spo_chain", **knobs), task=make.CoinTask(rates=(0.3, 0.6)), prompts=4
    )
    batch = pipeline.next_batch()
    assert pipeline.tokens()["remainder"] == 0 < pipeline.tokens()["aside:probe"]
    taught = 0
    for group in batch.groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            value_T, number_T = (np.asarray(signal.scores[n]) for n in ("value", "segment"))
            assert np.isin(value_T, [0, 0.25, 0.5, 0.75, 1]).all()
            starts = np.flatnonzero(np.diff(number_T, prepend=-1))
            values = [*value_T[starts], rollout.reward]
            wanted = np.repeat(np.diff(values), np.diff([*starts, len(rollout)]))
            wanted[np.exp(rollout.logprobs_T) > 0.9 + 1e-5] = 0
            np.testing.assert_allclose(np.asarray(signal.advantage), wanted, atol=1e-6)
            taught += int((wanted != 0).sum())
    assert taught and batch.metrics["controls.segment_values/segments"] > 1
