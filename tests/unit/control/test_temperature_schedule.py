"""Sampling follows the schedule, log-probs are those sampled with, and the loss corrects them."""

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.temperature_schedule import TemperatureSchedule
from gfcr.errors import ConfigError
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import Sampling


def heated(name: str = "grpo", **knobs: float) -> Strategy:
    return strategies.load(
        name,
        controls={"heat": {"name": "temperature_schedule", **knobs}},
        correction={"name": "truncated", "cap": 1000.0},
    )


def test_it_is_linear_and_ends() -> None:
    part = TemperatureSchedule(start=2.0, end=1.0, updates=4)
    assert [part.scale(update) for update in range(6)] == [2.0, 1.75, 1.5, 1.25, 1.0, 1.0]


def test_a_strategy_without_correction_is_refused_and_with_one_taken() -> None:
    heat = {"controls": {"heat": {"name": "temperature_schedule"}}}
    for without in ({}, {"correction": {"name": "own_tokens"}}):  # which looks at no log-probs
        plan = strategies.load("grpo", **heat, **without)
        with pytest.raises(ConfigError, match=r"controls\.heat: .*correction: \{name: truncated\}"):
            plan.check()
    heated().check()
    strategies.load("grpo", **heat, loss={"off_policy": "behaviour"}).check()


def test_log_probs_are_those_of_the_temperature_sampled_at() -> None:
    pipeline = make.pipeline(heated(start=2.0, end=0.5, updates=1))
    engine = pipeline.engine
    for step, temperature in enumerate((2.0, 0.5)):
        pipeline.sync((), version=step)
        batch = pipeline.next_batch()
        assert batch.metrics["controls.heat/temperature"] == temperature
        assert batch.metrics["off_policy/moved"] == 1.0
        for rollout in (s.rollout for s in batch.samples[:10]):
            whole = [*rollout.prompt.tokens, *rollout.tokens_T.tolist()]
            (at,) = (
                s.logprobs_T
                for s in engine.score([whole], sampling=Sampling(temperature=temperature))
            )
            own = at[len(rollout.prompt.tokens) - 1 :]
            np.testing.assert_allclose(own, rollout.logprobs_T, atol=1e-5)
    forked = make.pipeline(heated("treerl", start=2.0)).next_batch()
    assert forked.metrics["off_policy/moved"] == 1.0 and any(
        s.rollout.parent for s in forked.samples
    )


def test_heat_widens_and_cold_narrows_what_is_sampled() -> None:
    def entropy(scale: float) -> float:
        plan = heated(start=scale, end=scale)
        batch = make.pipeline(plan, engine={"mean_length": 40.0}).next_batch()
        first = [int(r.tokens_T[0]) for g in batch.groups for r in g.rollouts]
        shares = np.unique(first, return_counts=True)[1] / len(first)
        return float(-(shares * np.log(shares)).sum())

    assert entropy(0.1) < entropy(1.0) < entropy(5.0)
