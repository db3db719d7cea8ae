"""Fresh and replayed rollouts are normalised apart."""

from typing import Literal

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.split_advantage import SplitAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def _mixed(fresh: list[float | None], replayed: list[float]) -> Group:
    """Fresh and replayed rollouts, interleaved from the front."""
    old = [make.rollout(100 + i, reward=r, origin="replay") for i, r in enumerate(replayed)]
    new = [make.rollout(i, reward=r) for i, r in enumerate(fresh)]
    mixed = [r for pair in zip(old, new, strict=False) for r in pair]
    return make.group_of([*mixed, *new[len(old) :], *old[len(new) :]])


def _by_origin(group: Group, origin: str) -> list[float | None]:
    pairs = zip(group.rollouts, group.signals, strict=True)
    return [s.advantage for r, s in pairs if r.origin == origin]


@over("kind", ["grpo", "dr_grpo", "rloo"])
def test_each_part_is_what_the_plain_map_makes_of_it_alone(
    kind: Literal["grpo", "dr_grpo", "rloo"],
) -> None:
    fresh, replayed = [1.0, 0.0, None, 0.0], [1.0, 1.0, 0.0]
    split = SplitAdvantage(kind=kind).apply(_mixed(fresh, replayed), view=make.view())
    plain = GroupAdvantage(kind=kind)
    for origin, rewards in (("fresh", fresh), ("replay", replayed)):
        alone = plain.apply(make.group(rewards), view=make.view())
        assert _by_origin(split, origin) == [s.advantage for s in alone.signals]


def test_without_replay_it_is_the_plain_map() -> None:
    group = make.group([1.0, 0.0, 0.5])
    plain = GroupAdvantage().apply(group, view=make.view())
    assert SplitAdvantage().apply(group, view=make.view()) == plain


def test_a_cache_of_successes_does_not_move_the_fresh_baseline() -> None:
    group = _mixed([1.0, 0.0, 0.0, 0.0], [1.0] * 8)
    split = SplitAdvantage(kind="dr_grpo").apply(group, view=make.view())
    assert _by_origin(split, "fresh") == [0.75, -0.25, -0.25, -0.25]
    assert _by_origin(split, "replay") == [0.0] * 8


def test_the_weight_falls_on_the_replayed_alone() -> None:
    split = SplitAdvantage(replay_weight=0.5).apply(
        _mixed([1.0, 0.0], [1.0, 0.0]), view=make.view()
    )
    weights = {r.origin: s.weight for r, s in zip(split.rollouts, split.signals, strict=True)}
    assert weights == {"fresh": 1.0, "replay": 0.5}


def test_an_all_unscorable_fresh_part_leaves_the_replayed() -> None:
    split = SplitAdvantage().apply(_mixed([None, None], [1.0, 0.0]), view=make.view())
    assert _by_origin(split, "fresh") == [None, None]
    assert np.sign(np.array(_by_origin(split, "replay"), float)).tolist() == [1, -1]


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match="replay_weight=-1"):
        SplitAdvantage(replay_weight=-1)


def test_epsilon_is_that_of_the_plain_map() -> None:
    group = make.group([1.0, 0.0, 0.0])
    split = SplitAdvantage(epsilon=0.5).apply(group, view=make.view())
    assert split == GroupAdvantage(epsilon=0.5).apply(group, view=make.view())
    assert split != GroupAdvantage().apply(group, view=make.view())
