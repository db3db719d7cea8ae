"""Advantages of steps, from the scores `value` and `step`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.step_advantage import StepAdvantage
from gfcr.testing import factories as make
from gfcr.types import Floats, Group
from tests.cases import over

STEPS = st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1)), min_size=1, max_size=5)


def scored(steps: list[tuple[int, float]], reward: float | None) -> Group:
    lengths, values = zip(*steps, strict=True)
    value_T = np.repeat(np.array(values, np.float32), lengths)
    step_T = np.repeat(np.arange(len(steps), dtype=np.float32), lengths)
    group = make.group_of([make.rollout(reward=reward, length=len(value_T))])
    return group.with_scores("value", [value_T]).with_scores("step", [step_T])


def advantages(group: Group, part: StepAdvantage) -> Floats:
    (signal,) = part.apply(group, view=make.view()).signals
    return np.asarray(signal.advantage)


@given(STEPS, st.sampled_from([0.0, 1.0]))
def test_every_step_gets_what_it_adds_equal_neighbours_too(
    steps: list[tuple[int, float]], reward: float
) -> None:
    got = advantages(scored(steps, reward), StepAdvantage())
    ends = [*(value for _, value in steps[1:]), reward]
    pairs = zip(steps, ends, strict=True)
    wanted = [end - value for (num, value), end in pairs for _ in range(num)]
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    of_outcome = advantages(scored(steps, reward), StepAdvantage(kind="outcome"))
    flat = [reward - value for num, value in steps for _ in range(num)]
    np.testing.assert_allclose(of_outcome, flat, atol=1e-6)


def test_environment_tokens_get_none_and_unscorable_rollouts_no_advantage() -> None:
    group = scored([(2, 0.5), (2, 0.75)], 1.0)
    (rollout,) = group.rollouts
    object.__setattr__(rollout, "mask_T", np.array([True, False, True, True]))
    assert advantages(group, StepAdvantage()).tolist() == [0.25, 0, 0.25, 0.25]
    assert advantages(group, StepAdvantage(kind="outcome")).tolist() == [0.5, 0, 0.25, 0.25]
    (signal,) = StepAdvantage().apply(scored([(2, 0.5)], None), view=make.view()).signals
    assert signal.advantage is None


def test_without_values_it_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="give the strategy the control step_values"):
        StepAdvantage().apply(make.group([1.0]), view=make.view())
    told = r"no part gives the scores that it reads \(`value`, `step`\): add.* `step_values`"
    with pytest.raises(ConfigError, match=told):
        strategies.load("vineppo", controls={"step_values": None}).check()


@over("name", ["vineppo", "opsd"])
def test_who_recalls_what_nobody_scored_is_refused_but_not_whole_groups(name: str) -> None:
    strategies.load(name, replays={"groups": {"name": "group_replay"}}).check()
    with pytest.raises(ConfigError, match=r"what replays\.rlep recalls joins a group"):
        strategies.load(name, replays={"rlep": {"name": "rlep"}}).check()
