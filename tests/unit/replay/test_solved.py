"""RLEP and AR3PO's reuse: what is kept, what is recalled and when, and how it is counted."""

import pickle
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.replay.rescue import Rescue
from gfcr.replay.rlep import Rlep
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over


def store(part: Any, *rewards: float | None, prompt: int = 0, **changes: Any) -> None:
    rollouts = [
        make.rollout(i, reward=r, of=make.prompt(prompt), **changes) for i, r in enumerate(rewards)
    ]
    harvest = Harvest(step=0, groups=(make.group_of(rollouts),), aborted=())
    part.store(harvest, view=make.view())


def recall(part: Any, *rewards: float | None, prompt: int = 0, step: int = 1) -> list[str]:
    group = make.group(rewards, of=make.prompt(prompt))
    return [r.id for r in part.recall(group, view=make.view(step=step))]


@over("kind", [Rlep, Rescue])
def test_right_rollouts_are_kept_the_newest_of_each_prompt(kind: type[Any]) -> None:
    part = kind(capacity=3, max_prompts=2)
    store(part, 1.0, 0.0, None, 0.5, 0.4)
    assert list(part.holds()) == ["g/0", "g/3"]
    store(part, 1.0, 1.0)
    assert list(part.holds()) == ["g/3", "g/0", "g/1"]
    store(part, 1.0, origin="replay")
    store(part, 1.0, finish=FinishReason.ERROR, error="x")
    assert len(list(part.holds())) == 3
    for prompt in (1, 2):
        store(part, 1.0, prompt=prompt)
    assert list(part.solved) == ["p1", "p2"]
    assert part.metrics()["solved_prompts"] == 2


@over("kind", [Rlep, Rescue])
def test_what_answers_another_prompt_than_its_group_is_not_kept(kind: type[Any]) -> None:
    """As a second try does, whose prompt shows the first one and never comes again."""
    part = kind()
    tries = [make.rollout(0, reward=1.0), make.rollout(1, reward=1.0, of=make.prompt(9))]
    group = make.group_of(tries, prompt=make.prompt())
    part.store(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert list(part.holds()) == ["g/0"]


def test_rlep_adds_right_ones_at_random_to_every_group_of_the_prompt() -> None:
    part = Rlep(num=2)
    store(part, *[1.0] * 10)
    draws = [tuple(recall(part, 1.0, 0.0, step=step)) for step in (1, 2, 3, 1)]
    assert draws[0] == draws[3] and len({*draws}) > 1
    assert all(len({*draw}) == 2 for draw in draws) and recall(part, 0.0, prompt=1) == []
    store(part, 0.0)
    assert part.metrics()["recalled"] == 8


@over(("rewards", "num"), [((0.0, 0.0), 1), ((0.0, 1.0), 0), ((None, None), 0), ((None, 0.0), 1)])
def test_a_group_is_rescued_only_where_nothing_in_it_is_right(
    rewards: tuple[float | None, ...], num: int
) -> None:
    part = Rescue()
    store(part, 1.0, 1.0)
    assert len(recall(part, *rewards)) == num


@over(("reward", "knobs"), [(0.4, {}), (0.6, {}), (0.6, {"threshold": 0.7}), (0.8, {})])
def test_ar3po_rescues_what_it_sampled_more_for_and_nothing_else(
    reward: float, knobs: dict[str, float]
) -> None:
    """A graded reward is right, or not, for the rounds and for the rescue alike."""
    plan: Any = strategies.load("ar3po", group_size=2, **knobs)
    more, rescue = plan.controls["more"], plan.replays["rescue"]
    store(rescue, 1.0)
    asked = more.decide(make.group([0.0, reward]), view=make.view(group_size=2)) is not None
    assert asked == (recall(rescue, 0.0, reward) != []) == (reward < knobs.get("threshold", 0.5))


def _run(name: str, updates: int, state: Any = None, **knobs: Any) -> tuple[Any, list[Any]]:
    task = make.CoinTask(rates=(0.3,), num_train=8)
    pipeline = make.pipeline(strategies.load(name, group_size=4, **knobs), task=task)
    if state is not None:
        pipeline.load_state_dict(pickle.loads(pickle.dumps(state)))
    batches: list[Any] = []
    for _ in range(updates):
        pipeline.engine.update_weights((), version=pipeline.step)
        batches.append(pipeline.next_batch())
        pipeline.updated({})
    return pipeline, batches


@over("name", ["rlep", "ar3po"])
def test_in_a_run_they_are_replayed_as_they_were_sampled(name: str) -> None:
    pipeline, batches = _run(name, 5)
    sampled = {
        r.id: r for b in batches for g in b.groups for r in g.rollouts if r.origin == "fresh"
    }
    replayed = [s.rollout for b in batches for s in b.samples if s.rollout.origin == "replay"]
    assert replayed and batches[0].metrics["rollouts/replayed"] == 0
    for rollout in replayed:
        old = sampled[rollout.id]
        assert rollout.reward == 1 and (rollout.versions_T == old.versions_T).all()
        np.testing.assert_array_equal(rollout.logprobs_T, old.logprobs_T)
    tokens = pipeline.tokens()
    assert tokens["remainder"] == 0 < tokens["replayed"]
    if name == "ar3po":
        groups = [g for b in batches for g in b.groups]
        joined = [g for g in groups if any(r.origin == "replay" for r in g.rollouts)]
        assert all(g.raw_rewards_N[:-1].max() == 0 for g in joined)


@pytest.mark.slow
@over("name", ["rlep", "ar3po", "exgrpo"])
def test_a_resumed_run_recalls_the_same(name: str) -> None:
    knobs = {"begin": 0.0} if name == "exgrpo" else {}
    _, whole = _run(name, 5, **knobs)
    first, _ = _run(name, 3, **knobs)
    _, rest = _run(name, 2, state=first.state_dict(), **knobs)
    ids = [[[s.rollout.id for s in b.samples] for b in bs] for bs in (whole[3:], rest)]
    assert ids[0] == ids[1]


def test_a_pool_of_another_run_is_read_once_and_stays_as_it_is(monkeypatch: Any) -> None:
    view, asked = make.view(), list[str]()
    again = make.group_of([make.rollout(0, reward=1.0, origin="replay")])  # that run replayed, too
    pool = [make.group([1.0, 0.0, 1.0]), again]
    monkeypatch.setattr(view, "recorded", lambda folder: asked.append(folder) or pool)
    part = Rlep(num=5, pool="runs/seed")
    for _ in range(2):
        found = part.recall(make.group([0.0]), view=view)
        assert sorted(r.id for r in found) == ["g/0", "g/2"]
    assert part.metrics()["solved_rollouts"] == 2
    store(part, 1.0, prompt=3)
    assert asked == ["runs/seed"] and list(part.solved) == ["p0"]
