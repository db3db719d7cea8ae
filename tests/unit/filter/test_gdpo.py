"""GDPO against the formula, and what a sum of rewards would lose."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.gdpo import Gdpo
from gfcr.filter.within_length import WithinLength
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over

values = st.sampled_from([0.0, 1.0]) | st.floats(-2, 2, width=16)


def scored(rewards: list[float | None], **scores: list[Any]) -> Group:
    group = make.group(rewards)
    for name, given_ in scores.items():
        group = group.with_scores(name, given_)
    return group


def mapped(part: Gdpo, *groups: Group) -> list[float]:
    view = make.view()
    done = part.map_batch([part.apply(g, view=view) for g in groups], view=view)
    return [float(s.advantage) for g in done for s in g.signals if s.advantage is not None]  # pyright: ignore


def normal(values: Any, *, epsilon: float = 1e-4) -> Any:
    found = np.array(values, np.float64)
    return (found - found.mean()) / (found.std(ddof=1) + epsilon)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(values, values), min_size=2, max_size=8), st.floats(0.5, 3))
def test_each_reward_is_normalised_by_itself(pairs: list[tuple[float, float]], w: float) -> None:
    rewards, lengths = [np.float32(r) for r, _ in pairs], [s for _, s in pairs]
    found = mapped(
        Gdpo(weights={"reward": 1, "length": w}), scored([*map(float, rewards)], length=lengths)
    )
    parts = [normal(v) if np.ptp(v) > 1e-6 else np.zeros(len(v)) for v in (rewards, lengths)]
    total = parts[0] + w * parts[1]
    if np.ptp(total) > 1e-3:
        assert found == pytest.approx(normal(total).tolist(), abs=1e-2)


def test_sums_that_a_group_s_norm_confuses_stay_apart() -> None:
    """Group one: one rollout has one of two rewards; group two: one has both (the paper's case)."""
    one = scored([1.0, 0.0], other=[0.0, 0.0])
    both = scored([1.0, 0.0], other=[1.0, 0.0])
    a, _, c, _ = mapped(Gdpo(), one, both)
    assert c == pytest.approx(2 * a, rel=1e-3)


def test_the_batch_has_mean_0_and_deviation_1() -> None:
    groups = [
        scored([1.0, 0.0, 0.0], x=[0.1, 0.5, 0.2]),
        scored([1.0, 1.0, 0.0], x=[3.0, 1.0, 2.0]),
    ]
    found = np.array(mapped(Gdpo(), *groups))
    assert found.mean() == pytest.approx(0, abs=1e-6)
    assert found.std(ddof=1) == pytest.approx(1, abs=1e-3)


def test_named_rewards_are_taken_in_the_place_of_their_sum() -> None:
    notes = [{"rewards/a": 1.0, "rewards/b": 0.0}, {"rewards/a": 0.0, "rewards/b": 1.0}]
    rollouts = [make.rollout(i, reward=float(i), notes=n) for i, n in enumerate(notes)]
    part = Gdpo()
    assert mapped(part, make.group_of(rollouts)) == pytest.approx([0.0, 0.0], abs=1e-4)
    assert part.metrics() == {"summed": 2.0}
    only = mapped(Gdpo(weights={"rewards/a": 1.0}), make.group_of(rollouts))
    assert only == pytest.approx([0.707, -0.707], abs=1e-3)


def test_what_a_verifier_measures_beside_its_reward_is_summed_only_if_it_is_named() -> None:
    late = [{"rewards/timed_out": float(i == 1), "measured": 1.0} for i in range(3)]
    plain = [make.rollout(i, reward=float(i == 0)) for i in range(3)]
    noted = [replace(r, notes=n) for r, n in zip(plain, late, strict=True)]
    assert mapped(Gdpo(), make.group_of(noted)) == mapped(Gdpo(), make.group_of(plain))
    named = Gdpo(weights={"reward": 1.0, "rewards/timed_out": -1.0})
    assert mapped(named, make.group_of(noted))[1] < 0 and named.metrics() == {"summed": 2.0}


def test_a_single_reward_keeps_the_scale_of_its_groups() -> None:
    groups = scored([1.0, 0.0, 0.0]), scored([1.0, 1.0, 0.0, 0.0])
    part = Gdpo(weights={"reward": 1.0})
    expected = [*normal([1, 0, 0]), *normal([1, 1, 0, 0])]
    assert mapped(part, *groups) == pytest.approx(expected, abs=1e-5)
    assert np.std(expected, ddof=1) < 0.95, "as one batch they would be stretched to 1"
    assert part.metrics() == {"summed": 1.0}


def test_what_a_rollout_lacks_is_neither_counted_nor_moved() -> None:
    notes = [{"rewards/a": 1.0}, {"rewards/a": 0.0}, {}]
    rollouts = [make.rollout(i, reward=1.0, notes=n) for i, n in enumerate(notes)]
    found = mapped(Gdpo(), make.group_of(rollouts))
    assert found[0] == -found[1] > 0 and found[2] == pytest.approx(0, abs=1e-6)


def test_unscorable_rollouts_and_dead_groups() -> None:
    found = mapped(Gdpo(), make.group([1.0, None, 0.0]))
    assert len(found) == 2 and found[0] == -found[1]
    assert mapped(Gdpo(), make.group([1.0, 1.0])) == [0.0, 0.0]
    assert mapped(Gdpo(), make.group([1.0, None])) == [0.0]


def test_scores_per_token_count_as_their_mean() -> None:
    steps = [np.array([0.0, 1.0, 1.0, 0.0], np.float32), np.zeros(4, np.float32)]
    weights = {"step": 1.0}
    whole = mapped(Gdpo(weights=weights), scored([1.0, 1.0], step=[0.5, 0.0]))
    assert mapped(Gdpo(weights=weights), scored([1.0, 1.0], step=steps)) == whole


def test_a_name_that_nobody_gives_is_refused_with_those_known() -> None:
    with pytest.raises(ConfigError, match=r"gdpo\.weights names lenght.*Known are: length, reward"):
        mapped(Gdpo(weights={"lenght": 1.0}), scored([1.0, 0.0], length=[1.0, 0.0]))
    with pytest.raises(ConfigError, match="weigh nothing"):
        Gdpo(weights={"reward": 0.0})


@over(("right_only", "expected"), [(False, [1, 1, 0]), (True, [1, 0, 0])])
def test_within_length_scores_the_short(right_only: bool, expected: list[float]) -> None:
    sizes = ((1.0, 20), (0.0, 20), (1.0, 21))
    rollouts = [make.rollout(i, reward=r, length=n) for i, (r, n) in enumerate(sizes)]
    part = WithinLength(limit=0.5, right_only=right_only)
    group = part.apply(make.group_of(rollouts), view=make.view(max_tokens=40))
    assert [s.scores["within_length"] for s in group.signals] == expected
    assert group.kept_N.all()


def test_the_strategy_pays_for_being_short_and_for_being_right() -> None:
    batch = make.pipeline(strategies.load("gdpo", limit=0.25)).next_batch()
    assert 0 < batch.metrics["score/within_length"] < 1
    assert batch.metrics["filters.advantage/summed"] == 2
    pairs = [
        (s.scores["within_length"], r.reward, s.advantage)
        for g in batch.groups
        for r, s in zip(g.rollouts, g.signals, strict=True)
        if np.ptp([float(t.scores["within_length"]) for t in g.signals]) and np.ptp(g.rewards_N)  # pyright: ignore
    ]
    best = [a for short, reward, a in pairs if short and reward]
    worst = [a for short, reward, a in pairs if not short and not reward]
    assert best and worst and min(best) > max(worst)  # pyright: ignore


@over("order", [(0, 1), (1, 0)])
def test_batches_in_the_making_do_not_lose_one_another_s_rewards(order: tuple[int, int]) -> None:
    """Whichever is complete first, as under `async` with `late: ready_first`."""
    part = Gdpo(weights={"reward": 1, "length": 1})
    views = [make.view(step=step) for step in (0, 1)]
    groups = [part.apply(scored([1.0, 0.0], length=[1.0, 3.0]), view=view) for view in views]
    for group, view in ((groups[i], views[i]) for i in order):
        part.map_batch([group], view=view)
        assert part.metrics() == {"summed": 2.0}
    assert not part.found
