"""Episodes are compared, however many rollouts each is, and all of one have its advantage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group

KINDS = ["grpo", "dr_grpo", "rloo"]


def group(rewards: list[float], turns: list[int]) -> Group:
    """An episode for each reward, in so many rollouts."""
    pairs = [(e, r) for e, (r, n) in enumerate(zip(rewards, turns, strict=True)) for _ in range(n)]
    return make.group_of(
        [
            make.rollout(i, reward=reward, notes={"episode": float(episode)})
            for i, (episode, reward) in enumerate(pairs)
        ]
    )


def advantages(of: Group, kind: str = "grpo") -> list[float]:
    filtered = EpisodeAdvantage(kind=kind).apply(of, view=make.view())
    return [float(s.advantage) for s in filtered.signals]


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 4)), min_size=1),
)
def test_an_episode_has_what_it_would_have_as_one_rollout(
    kind: str, episodes: list[tuple[float, int]]
) -> None:
    rewards, turns = [r for r, _ in episodes], [n for _, n in episodes]
    whole = GroupAdvantage(kind=kind).apply(make.group(rewards), view=make.view())
    expected = np.repeat([float(s.advantage) for s in whole.signals], turns)
    np.testing.assert_allclose(advantages(group(rewards, turns), kind), expected, atol=1e-6)


def test_long_episodes_do_not_move_the_mean() -> None:
    assert advantages(group([1.0, 0.0], [9, 1]), "dr_grpo") == [0.5] * 9 + [-0.5]


def test_without_episodes_it_is_the_group_s() -> None:
    plain = make.group([1.0, 0.0, 1.0])
    whole = GroupAdvantage().apply(plain, view=make.view())
    assert advantages(plain) == [s.advantage for s in whole.signals]


def test_an_episode_recalled_from_another_group_is_another_one() -> None:
    own = group([1.0, 0.0], [2, 2])
    old = make.rollout(9, reward=1.0, group_id="old", notes={"episode": 0.0})
    joined = make.group_of([*own.rollouts, old])
    assert advantages(joined, "dr_grpo") == pytest.approx([1 / 3] * 2 + [-2 / 3] * 2 + [1 / 3])


def test_what_is_rejected_has_none_and_the_last_one_kept_speaks() -> None:
    shaped = (
        group([1.0, 0.0], [2, 2])
        .with_rewards([1.0, 0.5, 0.0, 0.0])
        .reject_rollouts([3], reason="t")
    )
    filtered = EpisodeAdvantage(kind="dr_grpo").apply(shaped, view=make.view())
    assert [s.advantage for s in filtered.signals] == [0.25, 0.25, -0.25, None]
    assert filtered.values["episodes"] == 2


def test_it_needs_as_many_as_its_map() -> None:
    assert [EpisodeAdvantage(kind=kind).fewest() for kind in KINDS] == [2, 2, 1]
