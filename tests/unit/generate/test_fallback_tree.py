"""TreePO's trees: enough paths, at ends of segments, and dead ends gone back from."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.fallback_tree import FallbackTree
from gfcr.testing import factories as make
from tests.trees import trunk_is_generated_once


def grown(mean_length: float = 1e9, max_tokens: int = 40, **knobs: int) -> tuple[Any, Any]:
    plan = strategies.load("treepo", **knobs)
    engine = {"mean_length": mean_length}
    pipeline = make.pipeline(plan, engine=engine, max_tokens=max_tokens, prompts=4)
    return pipeline, pipeline.next_batch()


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    size=st.integers(1, 20),
    segment=st.integers(1, 20),
    divide=st.integers(1, 4),
    length=st.sampled_from([3.0, 12.0, 1e9]),
)
def test_there_are_as_many_paths_as_samples(
    size: int, segment: int, divide: int, length: float
) -> None:
    _, batch = grown(length, group_size=size, segment=segment, divide=divide)
    assert [len(g.rollouts) for g in batch.groups] == [size] * 4


def test_paths_divide_at_the_ends_of_segments_until_there_are_enough() -> None:
    pipeline, batch = grown(group_size=16, segment=5, first_low=2, first_high=2)
    trunk_is_generated_once(pipeline, batch)
    for group in batch.groups:
        places = sorted(r.fork_at for r in group.rollouts if r.parent)
        assert places == [5] * 2 + [10] * 4 + [15] * 8  # 2, 4, 8, 16 paths
    assert batch.metrics["generate/fallbacks"] == 0


def test_the_first_paths_are_between_the_bounds_and_differ_by_prompt() -> None:
    _, batch = grown(group_size=30, segment=4, first_low=2, first_high=8)
    firsts = {sum(r.parent is None for r in g.rollouts) for g in batch.groups}
    assert len(firsts) > 1 and firsts <= {*range(2, 9)}


def test_where_all_have_ended_some_are_begun_from_inside_of_them() -> None:
    knobs = {"segment": 3, "divide": 1, "first_low": 2, "first_high": 2}
    pipeline, batch = grown(14.0, group_size=10, **knobs)
    trunk_is_generated_once(pipeline, batch)
    assert batch.metrics["generate/fallbacks"] == 4 * 8
    for group in batch.groups:
        lengths = {r.id: len(r) for r in group.rollouts}
        branches = [r for r in group.rollouts if r.parent]
        assert len(branches) == 8
        assert all(r.fork_at % 3 == 0 and r.fork_at < lengths[str(r.parent)] for r in branches)


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"first_low=9 exceeds fallback_tree\.first_high=8"):
        FallbackTree(first_low=9)
