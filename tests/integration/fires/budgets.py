"""Strategies that divide compute among prompts: groups of an update differ in size."""

from gfcr.types import Prompt
from tests.integration.fires.case import Case, Done


def sizes(done: Done) -> list[list[int]]:
    """Rollouts of each group, update by update."""
    return [[len(g.rollouts) for g in batch.groups] for batch in done.batches]


def divides_what_it_knows(done: Done) -> None:
    first, second = sizes(done)
    assert set(first) == {8} and len(set(second)) > 1
    assert sum(first) == sum(second) == done.metric("controls.knapsack/total")[1]
    assert done.metric("controls.knapsack/known") == [0, 4]


def adds_to_hard_prompts(done: Done) -> None:
    few = done.run.strategy.group_size
    right = {g.id: int(g.raw_rewards_N[:few].sum()) for g in done.groups}
    more = {g.id for g in done.groups if len(g.rollouts) > few}
    assert more == {g for g in right if right[g] < few / 2} and 0 < len(more) < len(right)
    asked = sum(done.metric("controls.dars/extra"))
    assert asked == sum(len(g.rollouts) - few for g in done.groups)


def divides_by_expected_spread(done: Done) -> None:
    first, second = sizes(done)
    assert set(first) == {8} and len(set(second)) > 1
    assert sum(first) == sum(second) == done.metric("controls.vip/total")[1]
    assert done.metric("controls.vip/rate_std")[0] == 0 < done.metric("controls.vip/rate_std")[1]
    weights = [sum(s.weight for s in g.signals) for g in done.groups]
    assert all(abs(weight - 8) < 1e-6 for weight in weights)


def commits_to_the_middle(done: Done) -> None:
    trained = [g for g in done.groups if g.rejected is None]
    assert {len(g.rollouts) for g in trained} == {4 + 6}
    assert all(0.25 <= g.raw_rewards_N[:4].mean() <= 0.75 for g in trained)
    assert sum(done.metric("controls.pilot_commit/committed")) == len(trained)
    reasons = {g.rejected: len(g.rollouts) for g in done.groups if g.rejected}
    assert reasons and set(reasons.values()) == {4}
    assert set(reasons) <= {"too_easy", "too_hard", "surplus"}


def some_always(prompt: Prompt) -> float:
    return 1.0 if len(prompt.text) % 4 < 2 else 0.5


CASES = {
    "dars": Case(check=adds_to_hard_prompts),
    "knapsack": Case(check=divides_what_it_knows, num_train=4),
    "pilot_commit": Case(check=commits_to_the_middle, knobs={"group_size": 4, "commit": 6}),
    "vip": Case(check=divides_by_expected_spread, num_train=4, rate=some_always),
}
