"""SPO-tree's advantages, on trees small enough to do by hand and against brute force."""

from itertools import product
from typing import Any

import numpy as np

from gfcr.filter.sibling_advantage import SiblingAdvantage
from gfcr.testing import factories as make
from gfcr.types import Span
from tests.cases import over
from tests.trees import leaf

VIEW: Any = None


def advantages(rollouts: list[Any], **config: Any) -> list[Any]:
    part = SiblingAdvantage(**{"unlikely": 1.0, **config})
    mapped = part.apply(make.group_of(rollouts), view=VIEW)
    return [s.advantage for s in mapped.signals]


def test_a_tree_done_by_hand() -> None:
    # Two first segments of 2 tokens, u (right, wrong) and v (wrong, wrong).
    found = advantages(
        [
            leaf(0, spans=[("u", 3)], reward=1.0),
            leaf(1, spans=[("u", 2), ("x", 2)], reward=0.0),
            leaf(2, spans=[("v", 4)], reward=0.0),
            leaf(3, spans=[("v", 2), ("y", 1)], reward=0.0),
        ],
        normalise=False,
    )
    np.testing.assert_allclose(found[0], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(found[1], [0.25, 0.25, -0.5, -0.5])
    np.testing.assert_allclose(found[2], [-0.25, -0.25, 0, 0])
    np.testing.assert_allclose(found[3], [-0.25, -0.25, 0])


@over("normalise", [True, False])
def test_a_balanced_tree_agrees_with_values_from_the_bottom_up(normalise: bool) -> None:
    """3-2-2, as the authors compute it: V(leaf) = reward, V(inner) = mean of its children."""
    rewards = {
        path: float(r)
        for path, r in zip(
            product(range(3), range(2), range(2)),
            np.random.default_rng(0).integers(0, 2, 12),
            strict=True,
        )
    }

    def value(node: tuple[int, ...]) -> float:
        below = [(*node, i) for i in range(3 if not node else 2)]
        return rewards[node] if len(node) == 3 else float(np.mean([value(b) for b in below]))

    def advantage(node: tuple[int, ...]) -> float:
        siblings = [value((*node[:-1], i)) for i in range(3 if len(node) == 1 else 2)]
        if np.ptp(siblings) == 0:
            return 0.0
        scale = np.std(siblings) if normalise else 1.0
        return (value(node) - float(np.mean(siblings))) / float(scale)

    def spans(path: tuple[int, ...]) -> list[tuple[str, int]]:
        """The first child of a node is its own request going on."""
        found: list[tuple[str, int]] = []
        for depth in range(1, 4):
            if depth == 1 or path[depth - 1]:
                found.append((str(path[:depth]), 0))
            found[-1] = (found[-1][0], found[-1][1] + 2)
        return found

    leaves = [leaf(i, spans=spans(p), reward=r) for i, (p, r) in enumerate(rewards.items())]
    for path, found in zip(rewards, advantages(leaves, normalise=normalise), strict=True):
        wanted = np.repeat([advantage(path[:depth]) for depth in (1, 2, 3)], 2)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_branch_that_ends_early_counts_as_much_as_one_that_divides() -> None:
    """u divides into x, which ends at once, and y, which divides into three; v ends."""
    x, *ys, v = advantages(
        [
            leaf(0, spans=[("u", 2), ("x", 1)], reward=1.0),
            *[leaf(i, spans=[("u", 2), ("y", 2), (f"z{i}", 1)], reward=0.0) for i in (1, 2, 3)],
            leaf(4, spans=[("v", 2)], reward=0.0),
        ],
        normalise=False,
    )
    np.testing.assert_allclose(x, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(ys, [[0.25, 0.25, -0.5, -0.5, 0]] * 3)
    np.testing.assert_allclose(v, [-0.25, -0.25])


def test_a_rollout_that_ends_where_others_go_on_counts_as_one_branch() -> None:
    """u ends in one rollout and goes on as y, which divides, in others."""
    ends, *ys, v = advantages(
        [
            leaf(0, spans=[("u", 2)], reward=1.0),
            *[leaf(i, spans=[("u", 2), ("y", 1), (f"z{i}", 1)], reward=0.0) for i in (1, 2)],
            leaf(3, spans=[("v", 2)], reward=0.0),
        ],
        normalise=False,
    )
    np.testing.assert_allclose(ends, [0.25, 0.25])
    np.testing.assert_allclose(ys, [[0.25, 0.25, 0, 0]] * 2)
    np.testing.assert_allclose(v, [-0.25, -0.25])


def test_only_unlikely_tokens_are_taught_and_only_sampled_ones() -> None:
    rows = {"logprobs": [-0.01, -1.0, 0.0, -0.2], "mask_T": np.array([True, True, False, True])}
    pair = [make.rollout(i, reward=1.0 - i, spans=(own(i),), **rows) for i in range(2)]
    one, two = advantages(pair, unlikely=0.9)
    np.testing.assert_allclose(one, [0, 1, 0, 1])
    np.testing.assert_allclose(two, [0, -1, 0, -1])


def own(index: int) -> Span:
    """Three tokens of a request of its own."""
    return Span(request_id=str(index), start=0, stop=3)


def test_an_only_child_and_what_all_agree_on_teach_nothing() -> None:
    same = [leaf(i, spans=[(str(i), 2)], reward=1.0) for i in range(3)]
    assert not np.any(advantages(same)) and not np.any(advantages(same[:1]))


def test_what_is_not_kept_has_no_vote() -> None:
    tree = [
        leaf(0, spans=[("a", 3)], reward=1.0),
        leaf(1, spans=[("a", 1), ("b", 1)], reward=0.0),
        leaf(2, spans=[("a", 1), ("c", 1)], reward=None),
    ]
    *found, none = advantages(tree)
    assert none is None
    for one, other in zip(found, advantages(tree[:2]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_rewards_that_floats_cannot_hold_teach_nothing() -> None:
    """Seven leaves of 0.1 below one first segment and one below another: means differ by noise."""
    leaves = [leaf(i, spans=[("u", 2), (f"x{i}", 2)], reward=0.1) for i in range(7)]
    found = advantages([*leaves, leaf(7, spans=[("v", 4)], reward=0.1)])
    assert all(not advantage_T.any() for advantage_T in found)
