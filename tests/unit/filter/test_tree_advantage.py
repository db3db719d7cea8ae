"""TreeRL's process rewards on trees small enough to do by hand."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gfcr.filter.tree_advantage import TreeAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout
from tests.trees import leaf

VIEW: Any = None


def advantages(rollouts: list[Rollout]) -> list[Any]:
    mapped: Group = TreeAdvantage().apply(make.group_of(rollouts), view=VIEW)
    return [s.advantage for s in mapped.signals]


def test_a_tree_done_by_hand() -> None:
    # a: 5 tokens, right; b and c fork from a at 2, wrong; d: a chain of its own, right.
    a, b, c, d = advantages(
        [
            leaf(0, spans=[("a", 5)], reward=1.0),
            leaf(1, spans=[("a", 2), ("b", 1)], reward=0.0),
            leaf(2, spans=[("a", 2), ("c", 2)], reward=0.0),
            leaf(3, spans=[("d", 3)], reward=1.0),
        ]
    )
    # V(root) = 1/2; the trunk has V = 1/3 over 3 leaves and the root as parent.
    trunk = (2 / 3 - 1 / 2 - 1 / 2) / 3**0.5
    np.testing.assert_allclose(a, [trunk] * 2 + [2 - 1 / 2 - 1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(b, [trunk] * 2 + [0 - 1 / 2 - 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(c, [trunk] * 2 + [0 - 1 / 2 - 1 / 3] * 2, rtol=1e-6)
    np.testing.assert_allclose(d, [2 - 1 / 2 - 1 / 2] * 3, rtol=1e-6)


def test_a_fork_of_a_fork_has_the_branch_as_parent() -> None:
    # b forks from a at 1, c from b at 3: root -> a[0:1] -> b[1:3] -> {b[3:4], c}; a[1:3].
    _, b, c = advantages(
        [
            leaf(0, spans=[("a", 3)], reward=0.0),
            leaf(1, spans=[("a", 1), ("b", 3)], reward=1.0),
            leaf(2, spans=[("a", 1), ("b", 2), ("c", 2)], reward=0.0),
        ]
    )
    root = 1 / 3
    trunk = 0.0  # its leaves are all leaves
    middle = (2 / 2 - root - root) / 2**0.5
    np.testing.assert_allclose(b, [trunk, middle, middle, 2 - root - 1 / 2], atol=1e-6)
    np.testing.assert_allclose(c, [trunk, middle, middle, *[-root - 1 / 2] * 2], atol=1e-6)


def test_without_forks_it_is_twice_the_centred_reward() -> None:
    found = advantages([leaf(i, spans=[(f"{i}", 2)], reward=r) for i, r in enumerate((1, 0, 0, 1))])
    np.testing.assert_allclose(found, [[1, 1], [-1, -1], [-1, -1], [1, 1]])


def test_a_rollout_of_another_run_which_has_no_spans_is_a_segment() -> None:
    (own, other) = advantages(
        [leaf(0, spans=[("a", 2)], reward=0.0), make.rollout(1, length=3, reward=1.0, spans=())]
    )
    np.testing.assert_allclose(own, [-1, -1])
    np.testing.assert_allclose(other, [1, 1, 1])


def test_an_unscorable_leaf_has_no_vote() -> None:
    with_it = advantages(
        [
            leaf(0, spans=[("a", 4)], reward=1.0),
            leaf(1, spans=[("a", 2), ("b", 2)], reward=0.0),
            leaf(2, spans=[("a", 2), ("c", 2)], reward=None),
        ]
    )
    without = advantages(
        [
            leaf(0, spans=[("a", 4)], reward=1.0),
            leaf(1, spans=[("a", 2), ("b", 2)], reward=0.0),
        ]
    )
    assert with_it[2] is None
    np.testing.assert_allclose(with_it[:2], without)


def test_environment_tokens_have_none() -> None:
    mask = np.array([True, True, False, False, True])
    chain = leaf(0, spans=[("a", 2), ("b", 1)], reward=1.0)
    with_tool = make.rollout(0, length=5, reward=1.0, mask_T=mask, spans=chain.spans)
    (found, _) = advantages([with_tool, leaf(1, spans=[("c", 1)], reward=0.0)])
    np.testing.assert_allclose(found, [1, 1, 0, 0, 1])


@given(
    forks=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 5))),
    rewards=st.lists(st.sampled_from([0.0, 1.0]), min_size=30, max_size=30),
)
def test_rewards_move_nothing_where_all_agree_and_shared_tokens_always_agree(
    forks: list[tuple[int, int, int]], rewards: list[float]
) -> None:
    tree: list[list[tuple[str, int]]] = [[("0", 6)]]
    for number, (parent, at, length) in enumerate(forks, start=1):
        chain, left = tree[parent % len(tree)], 0
        left = at % sum(n for _, n in chain)
        prefix: list[tuple[str, int]] = []
        for request, num in chain:
            take = min(left, num)
            prefix += [(request, take)] if take else []
            left -= take
        tree.append([*prefix, (str(number), length)])
    same = advantages([leaf(i, spans=s, reward=1.0) for i, s in enumerate(tree)])
    assert all(not np.any(a) for a in same)
    leaves = [leaf(i, spans=s, reward=rewards[i % 30]) for i, s in enumerate(tree)]
    seen: dict[tuple[str, int], float] = {}
    for rollout, advantage_T in zip(leaves, advantages(leaves), strict=True):
        tokens = [(s.request_id, i) for s in rollout.spans for i in range(s.start, s.stop)]
        for token, advantage in zip(tokens, advantage_T, strict=True):
            assert seen.setdefault(token, advantage) == advantage


def test_what_is_shared_is_told_of_the_leaves_with_a_vote() -> None:
    leaves = [
        leaf(0, spans=[("a", 5)], reward=1.0),
        leaf(1, spans=[("a", 2), ("b", 1)], reward=0.0),
        leaf(2, spans=[("a", 3), ("c", 9)], reward=None),
    ]
    mapped = TreeAdvantage().apply(make.group_of(leaves), view=VIEW)
    # 5 tokens and 3, of which 2 are the same.
    assert mapped.values == {"leaves": 2.0, "shared": 1 - 6 / 8}
    (first, *_) = [s.advantage for s in mapped.signals]
    assert isinstance(first, np.ndarray) and first.dtype == np.float32


def test_a_leaf_that_sampled_nothing_has_none_and_counts_for_the_root() -> None:
    nothing = np.zeros(2, np.bool_)
    given = [
        leaf(0, spans=[("a", 1)], reward=1.0),
        make.rollout(1, length=0, reward=0.0, spans=()),
        make.rollout(2, length=2, reward=0.0, mask_T=nothing, spans=()),
    ]
    with np.errstate(all="raise"):
        first, second, third = advantages(given)
    np.testing.assert_allclose(first, [2 * (1 - 1 / 3)], rtol=1e-6)
    assert (second.tolist(), third.tolist()) == ([], [0.0, 0.0])
