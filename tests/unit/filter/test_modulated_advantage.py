"""FR3E's modulation, by hand."""

from math import e
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.filter.modulated_advantage import ModulatedAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout

VIEW: Any = None


def modulated(rollouts: list[Rollout], advantage: float = 2.0) -> Group:
    given = make.group_of(rollouts).with_advantages([advantage] * len(rollouts))
    return ModulatedAdvantage().apply(given, view=VIEW)


def branch(index: int, *, at: int, reward: float | None) -> Rollout:
    return make.rollout(index, reward=reward, length=6, parent="g/0", fork_at=at)


def test_tokens_behind_a_place_are_weighed_by_what_the_value_gained_there() -> None:
    """V_0 = 3/5; V_1 = 1/2 at token 2; V_2 = 1 at token 4."""
    base = make.rollout(0, reward=0.0, length=6)
    pairs = [(2, 1.0), (2, 0.0), (4, 1.0), (4, 1.0)]
    branches = [branch(i, at=at, reward=r) for i, (at, r) in enumerate(pairs, 1)]
    group = modulated([base, *branches])
    first, second = e ** (3 / 5 - 1 / 2), e ** (1 / 2 - 1)
    own, early, *_, late = (np.asarray(s.advantage) for s in group.signals)
    np.testing.assert_allclose(own, np.multiply(2, [1, 1, first, first, second, second]))
    np.testing.assert_allclose(early, np.multiply(2, [1, 1, *[first] * 4]))
    np.testing.assert_allclose(late, own)
    assert group.values["modulation"] == pytest.approx((first + second) / 2)


def test_rollouts_of_other_trees_and_unscored_ones_have_no_part_in_it() -> None:
    base, other = make.rollout(0, reward=1.0, length=6), make.rollout(9, reward=0.0, length=6)
    group = modulated([base, other, branch(1, at=3, reward=1.0), branch(2, at=3, reward=None)])
    factor = e ** (2 / 3 - 1)
    np.testing.assert_allclose(np.asarray(group.signals[0].advantage)[3:], 2 * factor)
    assert (np.asarray(group.signals[1].advantage) == 2).all()


def test_without_forks_nothing_changes() -> None:
    group = modulated([make.rollout(i, reward=float(i)) for i in range(3)])
    assert all((np.asarray(s.advantage) == 2).all() for s in group.signals)


def test_fr3e_explores_from_the_least_likely_tokens_of_its_base() -> None:
    plan = strategies.load("fr3e", places=2, rollouts=3)
    batch = make.pipeline(plan, engine={"mean_length": 1e9}, prompts=3).next_batch()
    for group in batch.groups:
        base, *branches = group.rollouts
        places = sorted({r.fork_at for r in branches})
        eligible = base.logprobs_T[: int(len(base) * 0.9)]
        assert places == sorted(np.argsort(eligible, kind="stable")[:2].tolist())
        assert [r.parent for r in branches] == [base.id] * 6
    assert 0.3 < batch.metrics["group/modulation"] < 3
