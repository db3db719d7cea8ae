"""SPEED: who is screened out, what a trained prompt costs, and what is kept for the next batch."""

from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.speed import Speed
from gfcr.errors import BatchCannotFill, ConfigError
from gfcr.stages import Plan, Retire, SampleMore
from gfcr.testing import factories as make
from tests import chosen
from tests.cases import over

OUT, MORE = Retire(reason="screened_out"), SampleMore(num_samples=20)


@over(
    ("rewards", "answer"),
    [
        ([0.0] * 4, OUT),
        ([1.0] * 4, OUT),
        ([0.1] * 4, OUT),
        ([0.0, 0.0, 0.0, 1.0], MORE),
        ([None, None, 0.0, 1.0], MORE),
        ([None, None, None, 1.0], OUT),
        ([None] * 4, None),
        ([0.0] * 24, None),
        ([1.0] + [0.0] * 23, None),
    ],
)
def test_the_screen(rewards: list[float | None], answer: Any) -> None:
    part, view = Speed(), cast("Any", make.view(group_size=4))
    assert part.decide(make.group(rewards), view=view) == answer
    # It is continued once, also where a Watcher aborts all of what was asked for.
    again = None if answer == MORE else answer
    assert part.decide(make.group(rewards), view=view) == again


def expected_cost(rate: float, *, screen: int, more: int) -> float:
    """Rollouts per trained prompt, by summing over all outcomes of a screening."""
    passes = 0.0
    for outcome in product((0, 1), repeat=screen):
        right = sum(outcome)
        if 0 < right < screen:
            passes += rate**right * (1 - rate) ** (screen - right)
    return more + screen / passes


@over("rate", [0.05, 0.2, 0.5, 0.9])
@over("screen", [2, 4])
def test_the_formula_of_the_cost_is_the_sum_over_outcomes(rate: float, screen: int) -> None:
    formula = 20 + screen / (1 - rate**screen - (1 - rate) ** screen)
    assert formula == pytest.approx(expected_cost(rate, screen=screen, more=20))


def _cost(name: str, *, rate: float, updates: int = 15, **knobs: Any) -> float:
    task = make.CoinTask(rates=(rate,), num_train=2000)
    _, batches = chosen.run(strategies.load(name, **knobs), updates=updates, prompts=8, task=task)
    made = sum(len(g.rollouts) for b in batches for g in b.groups)
    return made / sum(len(b.accepted) for b in batches)


@pytest.mark.whole
@over("rate", [0.1, 0.5])
def test_a_trained_prompt_costs_what_the_formula_says(rate: float) -> None:
    cost = _cost("speed", rate=rate, more=8, ahead=0)
    q = 1 - rate**4 - (1 - rate) ** 4
    # Screenings per trained prompt are geometric; the mean of 120 of them has this deviation.
    deviation = 4 * np.sqrt((1 - q) / q**2 / 120)
    assert cost == pytest.approx(expected_cost(rate, screen=4, more=8), abs=4 * deviation)


@pytest.mark.slow
def test_on_hard_prompts_it_costs_less_than_dynamic_sampling_of_as_many() -> None:
    task = make.CoinTask(rates=(0.0, 0.0, 0.0, 0.5), num_train=4000)

    def rollouts(name: str, **knobs: Any) -> float:
        plan = strategies.load(name, **knobs)
        _, batches = chosen.run(plan, updates=3, prompts=8, task=task)
        made = sum(len(g.rollouts) for b in batches for g in b.groups)
        return made / sum(len(b.accepted) for b in batches)

    assert rollouts("speed", ahead=0) < 0.55 * rollouts("dapo", group_size=24, max_rounds=50)


def test_every_trained_group_has_all_rollouts_and_signal() -> None:
    pipeline, batches = chosen.run(strategies.load("speed", ahead=0), updates=3)
    for batch in batches:
        assert len(batch.accepted) == 7
        for group in batch.groups:
            out = group.rejected == "screened_out"
            assert len(group.rollouts) == (4 if out else 24)
            assert out == (np.ptp(group.raw_rewards_N[:4]) == 0)
    metrics, groups = batches[-1].metrics, batches[-1].groups
    assert metrics["controls.speed/screened"] == len(groups)
    assert metrics["controls.speed/passed"] == pytest.approx(7 / len(groups))
    assert pipeline.tokens()["rejected:screened_out"] > 0 and "aborted" not in pipeline.tokens()


@pytest.mark.slow
def test_chosen_prompts_are_nearer_to_one_half_than_the_stream_s() -> None:
    plain = chosen.distance(chosen.run("grpo", updates=10)[1])
    assert chosen.distance(chosen.run("speed", updates=8)[1], accepted=True) < 0.65 * plain


def test_prompts_ahead_are_kept_for_the_next_batch_and_no_token_is_lost() -> None:
    task = make.CoinTask(rates=(0.4, 0.6), num_train=400)
    plan = strategies.load("speed", ahead=6)
    pipeline, batches = chosen.run(plan, updates=5, prompts=6, task=task)
    assert {len(b.accepted) for b in batches} == {6}
    assert all(len(g.rollouts) == 24 for b in batches for g in b.accepted)
    assert max(b.metrics["replays.partial_rollouts/resumed_tokens"] for b in batches) > 0
    bins = pipeline.ledger.bins()
    assert "aborted" not in bins
    assert sum(bins.values()) == pipeline.engine.stats().generated_tokens
    asked = chosen.uses(batches)
    assert set(asked.values()) == {1}, "a prompt continued is no prompt asked again"


def _plan(part: Speed, *, accepted: int, round: int, in_flight: int = 0, judged: int = 0) -> Plan:
    view = make.view(target=8)
    view.round, view.num_accepted, view.groups = round, accepted, [make.group([1.0])] * judged
    missing = 8 - accepted - in_flight
    begin = missing if round == 0 else 0
    plan = Plan(num_groups=begin, target=8, in_flight=in_flight, missing=missing)
    return part.plan(plan, view=view)


def test_what_is_screened_out_is_replaced_at_once() -> None:
    part = Speed()
    assert _plan(part, accepted=0, round=0).num_groups == 8
    assert _plan(part, accepted=2, round=1, in_flight=5).num_groups == 1
    assert _plan(Speed(ahead=3), accepted=0, round=0).num_groups == 11


@pytest.mark.slow
def test_patience_ends_a_batch_short_or_with_an_error_that_says_what_to_do() -> None:
    part = Speed(patience=1)
    _plan(part, accepted=0, round=0)
    assert _plan(part, accepted=3, round=1, judged=8).num_groups == 0
    assert _plan(part, accepted=0, round=1, in_flight=2, judged=6).num_groups == 0
    assert _plan(part, accepted=0, round=1, judged=7).num_groups == 1, "a budget held one back"
    with pytest.raises(BatchCannotFill, match=r"none of 8 prompts .*speed.patience=1"):
        _plan(part, accepted=0, round=1, judged=8)
    task = make.CoinTask(rates=(0.0,), num_train=50)
    with pytest.raises(BatchCannotFill, match=r"^update 1: .* both right and wrong"):
        chosen.run("speed", updates=1, task=task)


def test_parts_that_count_rollouts_refuse_trees_and_other_sizes_when_the_strategy_is_read() -> None:
    for name in ("speed", "dars", "pilot_commit", "reinforce_ada"):
        parts = {name: {"name": name}}
        with pytest.raises(ConfigError, match=rf"{name}.*several rollouts of a sample"):
            strategies.load("grpo", generate={"name": "entropy_tree"}, controls=parts).check()
        with pytest.raises(ConfigError, match=r"controls\.sized gives groups other sizes"):
            sized = {"sized": {"name": "group_schedule"}}
            strategies.load("grpo", controls={**sized, **parts}).check()
        strategies.load("grpo", controls=parts).check()


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("speed", before=2, after=2, more=4)


@over("bad", [{"more": 0}, {"ahead": -1}, {"patience": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Speed.{next(iter(bad))}="):
        Speed(**bad)
