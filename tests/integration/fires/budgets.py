"""Strategies that divide compute among prompts: groups of an update differ in size."""

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


CASES = {
    "dars": Case(check=adds_to_hard_prompts),
    "knapsack": Case(check=divides_what_it_knows, num_train=4),
}
