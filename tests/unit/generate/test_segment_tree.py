"""SPO's trees: their size, where they fork, and that a trunk is generated once."""

from typing import Any

from gfcr import strategy as strategies
from gfcr.generate.segment_tree import SegmentTree
from gfcr.testing import factories as make
from tests.cases import over
from tests.trees import trunk_is_generated_once


def grown(mean_length: float = 1e9, max_tokens: int = 40, **knobs: int) -> tuple[Any, Any]:
    plan = strategies.load("spo_tree", **knobs)
    engine = {"mean_length": mean_length}
    pipeline = make.pipeline(plan, engine=engine, max_tokens=max_tokens, prompts=3)
    return pipeline, pipeline.next_batch()


@over("shape", [(6, 6, 3), (4, 4, 3), (2, 3, 2), (3, 1, 3), (2, 2, 1)])
def test_a_tree_has_the_product_of_its_widths_as_leaves(shape: tuple[int, int, int]) -> None:
    first, width, depth = shape
    _, batch = grown(group_size=first, width=width, depth=depth, segment=4, max_tokens=12)
    leaves = first * width ** (depth - 1)
    assert shape != (6, 6, 3) or leaves == 216  # the paper's
    assert SegmentTree(width=width, depth=depth).rollouts(first) == leaves
    for group in batch.groups:
        assert len(group.rollouts) == leaves
        assert all(r.fork_at in (4, 8) for r in group.rollouts if r.parent)
        assert sum(r.parent is None for r in group.rollouts) == first


def test_a_trunk_is_generated_once_and_every_answer_goes_on_to_its_end() -> None:
    pipeline, batch = grown(mean_length=20, group_size=3, width=2, depth=3, segment=6)
    trunk_is_generated_once(pipeline, batch)
    ends = {str(r.finish) for g in batch.groups for r in g.rollouts}
    assert ends <= {"stop", "length"} and "stop" in ends


def test_answers_that_end_in_the_first_segment_fork_nowhere() -> None:
    _, batch = grown(group_size=3, width=4, depth=3, segment=40)
    assert [len(g.rollouts) for g in batch.groups] == [3, 3, 3]
