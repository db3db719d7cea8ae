"""What preference learning is given: one good and one bad rollout of each group."""

from dataclasses import replace

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.testing import factories as make
from gfcr.train.shares import pairs
from gfcr.types import Sample
from tests.cases import over


def sample(group: str, *, advantage: float) -> Sample:
    rollout = replace(make.rollout(), group_id=group)
    return Sample(rollout=rollout, advantage_T=np.full(len(rollout), advantage, np.float32))


def test_pairs_are_of_one_group_whatever_the_order() -> None:
    given = [sample("a", advantage=-1), sample("b", advantage=2), sample("a", advantage=0.5)]
    found = pairs([*given, sample("b", advantage=-3)])
    assert [(good.rollout.group_id, bad.rollout.group_id) for good, bad in found] == [
        ("a", "a"),
        ("b", "b"),
    ]
    assert all(good.advantage_T.sum() > 0 > bad.advantage_T.sum() for good, bad in found)


@over("advantages", [(1,), (1, 1), (1, -1, -1), (1, 0), (1, -1, 0)])
def test_a_group_without_exactly_one_of_each_is_refused(advantages: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"group a: .*takes one rollout of positive and one"):
        pairs(sample("a", advantage=a) for a in advantages)
