"""TreePO's advantages against the authors' law, group by group of every depth."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.filter.sibling_advantage import SiblingAdvantage
from gfcr.filter.subgroup_advantage import SubgroupAdvantage
from gfcr.testing import factories as make
from tests.trees import leaf

VIEW: Any = None


def advantages(rollouts: list[Any], **config: Any) -> list[Any]:
    mapped = SubgroupAdvantage(**config).apply(make.group_of(rollouts), view=VIEW)
    return [s.advantage for s in mapped.signals]


def tree(rewards: list[float]) -> list[Any]:
    """2-2-2 in the order of its leaves; the first child of a node is its own request going on."""
    made: list[Any] = []
    for i, path in enumerate(product(range(2), range(2), range(2))):
        spans = [(f"{path[:1]}", 2)]
        for depth in (2, 3):
            spans += [(f"{path[:depth]}", 2)] if path[depth - 1] else []
            spans[-1] = (spans[-1][0], spans[-1][1] + 2 * (not path[depth - 1]))
        made.append(leaf(i, spans=spans, reward=rewards[i]))
    return made


@pytest.mark.parametrize("weigh", ["average", "size"])
@given(rewards=st.lists(st.sampled_from([0.0, 1.0]), min_size=8, max_size=8))
def test_every_subtree_on_the_path_is_a_group(weigh: Any, rewards: list[float]) -> None:
    found = advantages(tree(rewards), weigh=weigh)
    for i, reward in enumerate(rewards):
        groups = [rewards[i // size * size :][:size] for size in (8, 4, 2)]
        weights = [len(g) for g in groups] if weigh == "size" else [1, 1, 1]
        wanted = np.average([reward - np.mean(g) for g in groups], weights=weights)
        assert found[i] == pytest.approx(wanted, abs=1e-6)


def test_a_tree_says_how_much_of_it_was_shared() -> None:
    """Eight leaves of 6 tokens, of which 4 + 8 + 16 were sampled; a leaf is in three groups."""
    for part in (SubgroupAdvantage(), SiblingAdvantage()):
        values = part.apply(make.group_of(tree([0.0, 1.0] * 4)), view=VIEW).values
        known = {"leaves": 8.0, "shared": pytest.approx(1 - 28 / 48), "subgroups": 3.0}
        assert values == {name: known[name] for name in values} and {"leaves", "shared"} <= {
            *values
        }
    assert (
        "subgroups" in SubgroupAdvantage().apply(make.group_of(tree([1.0] * 8)), view=VIEW).values
    )


def test_without_forks_it_is_the_centred_reward() -> None:
    flat = [leaf(i, spans=[(str(i), 3)], reward=float(i)) for i in range(4)]
    np.testing.assert_allclose(advantages(flat), [-1.5, -0.5, 0.5, 1.5])


def test_a_trunk_that_all_share_is_one_group_and_not_two() -> None:
    three = [
        leaf(0, spans=[("a", 4)], reward=1.0),
        leaf(1, spans=[("a", 2), ("b", 2)], reward=0.0),
        leaf(2, spans=[("a", 2), ("c", 2)], reward=None),
    ]
    assert advantages(three) == [0.5, -0.5, None]
