"""Turns are compared as parts of episodes, and with others of their group from equal states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.filter.anchor_advantage import AnchorAdvantage
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.handles import EPISODE, STATE, STEP_REWARD
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout
from tests.cases import over


def episodes(rng: np.random.Generator, *, paid: bool) -> list[Rollout]:
    """Turns of four episodes among three states; one of the episodes cannot be scored."""
    made: list[Rollout] = []
    for episode in range(4):
        worth = None if episode == 3 else float(rng.integers(0, 2))
        for turn in range(int(rng.integers(1, 5))):
            notes = {EPISODE: float(episode), STATE: str(rng.integers(3))}
            if paid and (turn == 0 or rng.random() < 0.5):
                notes[STEP_REWARD] = float(rng.normal())
            made.append(make.rollout(len(made), reward=worth, notes=notes))
    return made


def advantages(of: Group, **knobs: Any) -> list[Any]:
    map_ = AnchorAdvantage(**knobs) if knobs else EpisodeAdvantage(epsilon=1e-6)
    return [signal.advantage for signal in map_.apply(of, view=make.view()).signals]


def returned(turns: list[Rollout]) -> list[float]:
    """Discounted returns of an episode's turns; the last earns what the steps did not."""
    earned = [r.notes.get(STEP_REWARD, 0.0) for r in turns]
    earned[-1] += turns[-1].reward - sum(earned)
    return [sum(0.9**k * e for k, e in enumerate(earned[t:])) for t in range(len(turns))]


@over("paid", [True, False])
@over("seed", range(20))
def test_a_turn_has_its_episode_s_and_what_it_returned_among_those_from_its_state(
    paid: bool, seed: int
) -> None:
    rollouts = episodes(np.random.default_rng(seed), paid=paid)
    group = make.group_of(rollouts)
    base, found = advantages(group), advantages(group, weight=0.7, discount=0.9)
    scored = [r for r in rollouts if r.reward is not None]
    own = {e: [r for r in scored if r.notes[EPISODE] == e] for e in (0.0, 1.0, 2.0)}
    pairs = [(r, v) for t in own.values() for r, v in zip(t, returned(t), strict=True)]
    value = {r.id: v for r, v in pairs}
    for rollout, outcome, advantage in zip(rollouts, base, found, strict=True):
        if rollout.reward is None:
            assert advantage is None
            continue
        same = [value[r.id] for r in scored if r.notes[STATE] == rollout.notes[STATE]]
        spread = np.std(same, ddof=1) if np.ptp(same) > 1e-6 else np.inf
        step = (value[rollout.id] - np.mean(same)) / (spread + 1e-6)
        assert advantage == pytest.approx(outcome + 0.7 * step, abs=1e-4)


def test_without_words_for_it_a_state_is_all_that_was_shown() -> None:
    shown = [make.prompt(text=text) for text in ("1+", "1+2", "1+", "1+3")]
    notes = [{EPISODE: 0.0}, {EPISODE: 0.0}, {EPISODE: 1.0}, {EPISODE: 1.0}]
    rewards = [1.0, 1.0, 0.0, 0.0]
    turns = [
        make.rollout(i, reward=r, of=p, notes=n)
        for i, (r, p, n) in enumerate(zip(rewards, shown, notes, strict=True))
    ]
    knobs = {"kind": "dr_grpo", "weight": 1.0, "discount": 0.5}
    assert advantages(make.group_of(turns), **knobs) == [0.75, 0.5, -0.75, -0.5]
    assert advantages(make.group_of(turns), **{**knobs, "kind": "rloo"}) == [1.5, 1.0, -1.5, -1.0]
    shaped = make.group_of(turns).with_rewards([3.0, 3.0, 0.0, 0.0])
    assert advantages(shaped, **knobs) == [2.25, 1.5, -2.25, -1.5]
    assert AnchorAdvantage().apply(shaped, view=make.view()).values["anchored"] == 2
    assert [AnchorAdvantage(kind=kind).fewest() for kind in ("grpo", "rloo")] == [2, 1]
    # Recalled, it has the number of an episode made now.
    recalled = [replace(t, group_id="h", notes={EPISODE: 0.0}) for t in turns[2:]]
    of_three = advantages(make.group_of([*turns, *recalled]), **knobs)
    assert of_three == pytest.approx([1, 2 / 3, -1 / 2, -1 / 3, -1 / 2, -1 / 3])
    plain = make.group([1.0, 0.0])
    assert advantages(plain, **knobs) == [0.5, -0.5], "rollouts that are no turns"
