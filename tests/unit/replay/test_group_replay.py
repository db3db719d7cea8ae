"""Groups that taught something in the place of dead ones: which, when, and how they count."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.replay.group_replay import GroupReplay
from gfcr.stages import Harvest, Plan
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over
from tests.fields import fields_of


def mapped(rewards: list[float], *, prompt: int, advantages: list[float] | None = None) -> Group:
    group = make.group(rewards, of=make.prompt(prompt))
    centred = [r - float(np.mean(rewards)) for r in rewards]
    return replace(group, id=f"g{prompt}").with_advantages(advantages or centred)


def after(*groups: Group, step: int = 0, **knobs: Any) -> GroupReplay:
    part = GroupReplay(**knobs)
    part.store(Harvest(step=step, groups=groups, aborted=()), view=make.view(step=step))
    return part


def planned(
    part: GroupReplay, *, missing: int, step: int = 1, later: bool = True, begun: int = 0
) -> list[str]:
    view = make.view(step=step)
    if later:
        view.round += 1
    plan = part.plan(Plan(num_groups=begun, target=8, missing=missing), view=view)
    assert plan.num_groups == begun + len(plan.jobs)
    assert all(len(j.resume) == j.num_samples for j in plan.jobs)
    return [j.prompt.id for j in plan.jobs]


def test_those_of_the_largest_priority_fill_what_is_missing() -> None:
    """TRL's priority: sum |A| times the deviation of the rewards."""
    part = after(
        mapped([1, 0, 0, 0], prompt=1), mapped([1, 1, 0, 0], prompt=2), mapped([1, 0.9], prompt=3)
    )
    wanted = {1: 1.5 * np.std([1, 0, 0, 0]), 2: 2 * 0.5, 3: 0.1 * 0.05}
    found = {int(k.rollouts[0].prompt.id[1:]): k.priority for k in part.kept}
    assert found == pytest.approx(wanted, rel=1e-5)
    assert planned(part, missing=2) == ["p2", "p1"]
    assert planned(part, missing=2, later=False) == []
    assert planned(part, missing=0) == [] and planned(part, missing=3, begun=2) == ["p3"]
    assert part.metrics() == {"replayed": 1, "kept": 3}


def test_dead_rejected_and_replayed_groups_are_not_kept() -> None:
    alive = mapped([1, 0], prompt=1)
    old = make.group_of([make.rollout(i, reward=1.0 - i, origin="replay") for i in range(2)])
    part = after(
        mapped([1, 1], prompt=2), alive.reject("x"), old.with_advantages([1.0, -1.0]), alive
    )
    assert len(part.kept) == 1


def test_the_best_are_kept() -> None:
    groups = [mapped([1, *[0] * n], prompt=n) for n in range(1, 8)]
    part = after(*groups, capacity=3)
    best = sorted(groups, key=lambda g: -_priority(g))[:3]
    assert [k.rollouts[0].prompt.id for k in part.kept] == [g.prompt.id for g in best]


def _priority(group: Group) -> float:
    sizes = sum(abs(float(np.mean(s.advantage or 0))) for s in group.signals)
    return sizes * float(group.rewards_N.std())


def test_reuse_rest_and_age_are_bounded() -> None:
    part = after(mapped([1, 0], prompt=1), reuses=2, cooldown=1, max_age=6)
    times = [step for step in range(1, 9) if _asked(part, step)]
    assert times == [2, 4]  # rests for an update behind each training, twice at most
    later = mapped([1, 0], prompt=1)
    later = replace(later, rollouts=tuple(replace(r, step=4) for r in later.rollouts))
    part = after(later, step=4, reuses=9, cooldown=0, max_age=3)
    assert [step for step in range(5, 12) if _asked(part, step)] == [5, 6, 7]
    # Batches in the making together: none of them has ended when the next one asks.
    part = after(mapped([1, 0], prompt=1), reuses=2, max_age=6)
    assert [len(planned(part, missing=1, step=step)) for step in (1, 2, 3)] == [1, 1, 0]
    assert not planned(after(mapped([1, 0], prompt=1), max_age=6), missing=1, step=7)


def _asked(part: GroupReplay, step: int) -> bool:
    found = planned(part, missing=1, step=step)
    part.store(Harvest(step=step, groups=(), aborted=()), view=make.view(step=step))
    return bool(found)


def _run(updates: int, state: Any = None, plan: Any = None) -> tuple[Any, list[Any]]:
    task = make.CoinTask(rates=(0.02, 0.5), num_train=32)
    plan = plan or strategies.load("group_replay", group_size=4)
    pipeline = make.pipeline(plan, task=task)
    if state is not None:
        pipeline.load_state_dict(pickle.loads(pickle.dumps(state)))
    batches: list[Any] = []
    for _ in range(updates):
        pipeline.engine.update_weights((), version=pipeline.step)
        batches.append(pipeline.next_batch())
        pipeline.updated({})
    return pipeline, batches


def test_in_a_run_nothing_is_sampled_for_them_and_they_are_as_they_were() -> None:
    pipeline, batches = _run(6)
    seen: dict[tuple[str, ...], Any] = {}
    replays = 0
    for batch in batches:
        for group in batch.groups:
            key = tuple(s.request_id for r in group.rollouts for s in r.spans)
            if group.rollouts[0].origin == "fresh":
                seen[key] = group
                continue
            replays += 1
            for new, old in zip(group.rollouts, seen[key].rollouts, strict=True):
                assert (new.reward, new.prompt.id, new.text) == (
                    old.reward,
                    old.prompt.id,
                    old.text,
                )
                for name in ("tokens_T", "logprobs_T", "versions_T", "mask_T"):
                    np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
                assert (new.versions_T < batch.version).all()
        fresh = [r for g in batch.groups for r in g.rollouts if r.origin == "fresh"]
        assert batch.cost.generated_tokens == sum(map(len, fresh))
        assert batch.cost.verifier_calls == len(fresh), "nothing is verified twice"
    assert replays == sum(b.metrics["replays.group_replay/replayed"] for b in batches) > 0
    tokens = pipeline.tokens()
    assert tokens["remainder"] == 0 < tokens["replayed"]
    assert batches[-1].metrics["off_policy/share"] > 0


def test_a_resumed_run_replays_the_same() -> None:
    _, whole = _run(6)
    first, _ = _run(3)
    again, rest = _run(3, state=first.state_dict())
    ids = [[[s.rollout.text for s in b.samples] for b in bs] for bs in (whole[3:], rest)]
    assert ids[0] == ids[1] and again.tokens()["remainder"] == 0


@over("generate", ["entropy_tree", "self_repair", "episode"])
def test_a_group_comes_back_as_it_was_whatever_generates(generate: str) -> None:
    """Nothing is sampled: leaves know where they branched, second tries what they answer."""
    found = {"name": generate, **({"per_turn": True} if generate == "episode" else {})}
    plan = strategies.load("group_replay", group_size=4, generate=found)
    plan.check()
    pipeline, batches = _run(6, plan=plan)
    made = {r.id: r for b in batches for g in b.groups for r in g.rollouts if r.origin == "fresh"}
    groups = [g for b in batches for g in b.groups if g.rollouts[0].origin == "replay"]
    again = [r for g in groups for r in g.rollouts]
    assert any(r.parent or r.prompt.id != g.prompt.id for g in groups for r in g.rollouts)
    for each in again:
        assert fields_of(each) == fields_of(replace(made[each.id], origin="replay"))
    assert pipeline.tokens()["remainder"] == 0
