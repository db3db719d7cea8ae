"""A budget of tokens that every strategy keeps to."""

from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.token_budget import TokenBudget
from gfcr.errors import ConfigError
from gfcr.pipeline import Pipeline
from gfcr.stages import Abort, Harvest, Plan
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch
from tests.sample import sample

MOST = 40
"""Tokens that a rollout may have."""
FEW = ["april", "dapo", "multi_turn", "reinforce_ada", "spec_rl", "treerl"]


def _run(name: str, tokens: int | None, **knobs: Any) -> Pipeline:
    part = {"token_budget": {"name": "token_budget", "tokens": tokens}} if tokens else {}
    task = make.CoinTask(rates=(0.3, 0.5, 0.7))
    plan = strategies.load(name, controls=part, **knobs)
    return make.pipeline(plan, task=task, prompts=6, max_tokens=MOST)


def _batches(run: Pipeline, num: int) -> list[RolloutBatch]:
    made: list[RolloutBatch] = []
    for version in range(num):
        run.sync((), version=version)
        made.append(run.next_batch())
    return made


def _tokens(batches: list[RolloutBatch]) -> list[int]:
    return [batch.cost.generated_tokens for batch in batches]


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(strategies.names(), always=FEW))
def test_every_strategy_keeps_to_half_of_what_it_spends(name: str) -> None:
    plan = strategies.load(name)
    free = _tokens(_batches(_run(name, None), 1))
    tokens = max(free[0] // 2, plan.group_size * MOST)
    run = _run(name, tokens)
    step = 2 if plan.drafter is None else 9
    for batch in _batches(run, 2):
        rollouts = sum(len(g.rollouts) for g in batch.groups) + len(batch.aborted)
        asides = sum(int(a.mask_T.sum()) for a in batch.asides)
        assert batch.cost.generated_tokens - asides <= tokens + step * rollouts
        assert batch.groups
    assert run.tokens()["remainder"] == 0


def test_a_budget_that_is_enough_changes_nothing() -> None:
    free, bound = (_batches(_run("grpo", tokens), 3) for tokens in (None, 6 * 8 * MOST))
    ids = [[[s.rollout.id for s in b.samples] for b in batches] for batches in (free, bound)]
    assert ids[0] == ids[1]
    assert [b.metrics["controls.token_budget/cut"] for b in bound] == [0, 0, 0]
    assert [b.metrics["controls.token_budget/held_back"] for b in bound] == [0, 0, 0]


def test_most_of_it_is_used_and_little_is_cut() -> None:
    run = _run("grpo", 320)
    batches = _batches(run, 12)
    used = [b.metrics["controls.token_budget/used"] for b in batches]
    assert 0.7 < np.mean(used[1:]) < 1.05
    cut = sum(len(b.aborted) for b in batches)
    assert cut == sum(b.metrics["controls.token_budget/cut"] for b in batches)
    assert cut < 0.15 * sum(len(b.samples) for b in batches)
    assert all(b.metrics["controls.token_budget/held_back"] > 0 for b in batches)


def test_what_it_counts_is_what_was_generated_to_a_few_tokens() -> None:
    for batch in _batches(_run("grpo", 5000), 3):
        off = batch.metrics["controls.token_budget/spent"] - batch.cost.generated_tokens
        assert abs(off) <= len(batch.samples) / 4  # rollouts of one token were never watched


def test_a_group_that_may_not_be_paid_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"token_budget\.tokens=319 .* give at least 320"):
        _run("grpo", 319).next_batch()


def test_refilling_stops_when_the_tokens_are_spent() -> None:
    task = make.CoinTask(rates=(0.0,))
    plan = strategies.load("dapo", controls={"b": {"name": "token_budget", "tokens": 1000}})
    batch = make.pipeline(plan, task=task, prompts=6, max_tokens=MOST).next_batch()
    assert batch.cost.generated_tokens < 1100 and not batch.samples
    assert len(batch.groups) >= 6


def test_groups_held_back_are_begun_when_others_were_cheap() -> None:
    part, view = TokenBudget(tokens=400), make.view(group_size=4, max_tokens=50)
    plan = part.plan(Plan(num_groups=6, target=6), view=view)
    assert (plan.num_groups, part.owed) == (2, 4)
    view.round += 1
    waiting = part.plan(Plan(num_groups=0, target=6, in_flight=2, missing=4), view=view)
    assert (waiting.num_groups, part.owed) == (0, 4)
    part.spent = 40
    view.judged(make.group([1.0] * 4))
    more = part.plan(Plan(num_groups=0, target=6, in_flight=1, missing=4), view=view)
    assert (more.num_groups, part.owed) == (4, 0)  # 360 left, 40 a group, one of them running
    replayed = make.group_of([make.rollout(0, origin="replay")])
    harvest = Harvest(step=0, groups=(make.group([1.0] * 4), replayed), aborted=())
    part.observe(harvest, view=view)
    assert part.metrics()["group_cost"] == 40, "what is replayed has cost nothing"


def test_rollouts_are_cut_from_the_token_that_spends_the_last() -> None:
    part, view = TokenBudget(tokens=200), make.view(group_size=4, max_tokens=50)
    part.plan(Plan(num_groups=1, target=1), view=view)
    part.spent = 197
    old: Any = make.rollout(length=9)
    trajectory = type("Seen", (), {"tokens": old.tokens_T.tolist()})()
    assert part.watch(trajectory, new=2, view=view) is None
    assert part.watch(trajectory, new=1, view=view) == Abort(reason="token budget spent")
