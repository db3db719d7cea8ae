"""Strategies written outside the package, one file each: what the contract is open for."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import PartError
from gfcr.stages import BatchMap, Filter, View
from gfcr.strategy import Strategy
from gfcr.tasks.base import Problems
from gfcr.testing import factories as make
from gfcr.tracking.rollouts import read_rollouts, write_rollouts
from gfcr.types import Group, Prompt, Rollout, RolloutBatch
from tests.cases import over

FOLDER = Path(__file__).parents[1] / "foreign"
NAMES = sorted(f"{f}:{f.stem}" for f in FOLDER.glob("*.py") if not f.stem.startswith("_"))


def load(name: str, **knobs: Any) -> Strategy:
    return strategies.load(f"{FOLDER / name}.py:{name}", **knobs)


def run(plan: Strategy, *, updates: int = 4, **changes: Any) -> tuple[Any, list[RolloutBatch]]:
    task = changes.pop("task", None) or make.CoinTask(rates=(0.2, 0.5, 0.8), num_train=12)
    pipeline = make.pipeline(plan, task=task, prompts=4, **changes)
    batches: list[RolloutBatch] = []
    for version in range(updates):
        pipeline.sync((), version=version)
        batches.append(pipeline.next_batch())
        pipeline.updated({"logprob_gap": 0.01})
    return pipeline, batches


def part(pipeline: Any, address: str) -> Any:
    return pipeline.strategy.parts[address]


@pytest.mark.slow
@over("name", NAMES, ids=lambda n: n.rpartition(":")[2])
def test_it_runs_accounts_resumes_and_round_trips(name: str) -> None:
    plan = strategies.load(name)
    plan.check()
    assert strategies.from_spec(plan.spec()).spec() == plan.spec()
    pipeline, batches = run(plan)
    assert all(b.samples for b in batches) and pipeline.tokens()["remainder"] == 0
    first, _ = run(strategies.load(name), updates=2)
    second = make.pipeline(
        strategies.load(name), task=make.CoinTask(rates=(0.2, 0.5, 0.8), num_train=12), prompts=4
    )
    second.load_state_dict(first.state_dict())
    for version in (2, 3):
        second.sync((), version=version)
        again = [s.rollout.tokens_T.tolist() for s in second.next_batch().samples]
        second.updated({"logprob_gap": 0.01})
        assert again == [s.rollout.tokens_T.tolist() for s in batches[version].samples]


def test_hints_come_where_nothing_was_right_and_are_not_trained_on() -> None:
    pipeline, batches = run(load("hinted"), task=make.CoinTask(rates=(0.0, 0.9), num_train=12))
    sizes = Counter(len(g.rollouts) for b in batches for g in b.groups)
    assert sizes[4] and sizes[8]
    for group in (g for b in batches for g in b.groups if len(g.rollouts) == 8):
        assert [bool(r.sampled_under) for r in group.rollouts] == [False] * 4 + [True] * 4
        assert {r.prompt.id for r in group.rollouts} == {group.prompt.id}
    assert part(pipeline, "controls.reroll").rerolled == sizes[8]


class Sums(make.CoinTask):
    """Prompts whose answers are numbers."""

    def _prompt(self, codec: Any, number: int) -> Prompt:
        text = f"{number}+1="
        rate = self.rates[number % len(self.rates)]
        answer = str(number + 1)
        tokens = codec.prompt(text)
        return Prompt(id=f"c{number}", tokens=tokens, text=text, answer=answer, meta={"rate": rate})


def test_a_curriculum_asks_longer_forms_of_what_was_solved() -> None:
    pipeline, batches = run(load("evolving"), task=Sums(rates=(0.5, 0.9), num_train=12), updates=5)
    made = [g.prompt for b in batches for g in b.groups if g.prompt.id.startswith("made:")]
    assert len(made) == part(pipeline, "controls.evolve").asked > 0
    assert all(eval(p.text.rstrip("=")) == int(p.answer) for p in made)
    assert max(sum(p in made for p in (g.prompt for g in b.groups)) for b in batches) <= 2


def test_two_caches_recall_beside_each_other() -> None:
    _, batches = run(load("two_replays"), updates=8)
    recalled = [b.metrics["rollouts/replayed"] for b in batches]
    assert max(recalled) > 8, "more than either recalls alone"
    assert batches[-1].metrics["replays.best/recalled"] > 0
    assert batches[-1].metrics["replays.newest/recalled"] > 0


@final
@dataclass(kw_only=True)
class Later(Filter, BatchMap):
    """Trains on replayed groups alone: a fresh one is for later."""

    def apply(self, group: Group, *, view: View) -> Group:
        return group

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        fresh = [g.rollouts[0].origin == "fresh" for g in groups]
        return [g.reject("later") if f else g for g, f in zip(groups, fresh, strict=True)]


@over("waits", [False, True])
def test_whole_groups_come_back_in_order_as_they_were_and_count_as_replayed(waits: bool) -> None:
    plan = load("fifo_replay", capacity=5)
    plan = replace(plan, filters={**plan.filters, "later": Later()}) if waits else plan
    pipeline = make.pipeline(plan, task=make.CoinTask(rates=(0.2, 0.8), num_train=12), prompts=4)
    made, queue, trained = dict[str, Rollout](), list[str](), set[str]()
    for version in range(6):
        pipeline.sync((), version=version)
        batch = pipeline.next_batch()
        fresh = [g for g in batch.groups if g.rollouts[0].origin == "fresh"]
        again = [g for g in batch.groups if g not in fresh]
        assert [g.rollouts[0].group_id for g in again] == queue[:2]
        assert all(r == replace(made[r.id], origin="replay") for g in again for r in g.rollouts)
        made |= {r.id: r for g in fresh for r in g.rollouts}
        queue = [*queue[2:], *(g.id for g in fresh)][-5:]
        trained |= {s.rollout.id for s in batch.samples}
        own = [r for g in fresh for r in g.rollouts]
        assert batch.metrics["reward/all"] == pytest.approx(np.mean([r.reward for r in own]))
        assert batch.metrics["rollouts/replayed"] == sum(len(g.rollouts) for g in again)
        assert batch.cost.verifier_calls == len(own)
        assert batch.cost.generated_tokens == sum(map(len, own))
        held = [r for r in made.values() if r.group_id in queue and r.id not in trained]
        tokens = pipeline.tokens()
        assert tokens.get("buffered", 0) == sum(map(len, held)) and tokens["remainder"] == 0
        assert bool(held) == waits or not version
        pipeline.updated({})


def test_another_run_s_answers_join_without_being_verified_or_billed(tmp_path: Path) -> None:
    task = make.CoinTask(rates=(0.5,), num_train=8)
    earlier, _ = run(
        load("two_replays"), task=task, updates=2, sink=lambda b: write_rollouts(tmp_path, batch=b)
    )
    plan = load("experience", folder=str(tmp_path))
    pipeline, batches = run(plan, task=task, updates=2, records=read_rollouts)
    recalled = [r for b in batches for g in b.groups for r in g.rollouts if r.origin == "replay"]
    assert recalled and all(r.reward == 1 and not r.spans for r in recalled)
    assert part(pipeline, "replays.experience").recalled == len(recalled)
    assert sum(b.cost.verifier_calls for b in batches) == 2 * 4 * 4
    tokens = pipeline.tokens()
    assert tokens["remainder"] == 0 and "replayed" not in tokens
    assert tokens["generated"] == pipeline.engine.stats().generated_tokens
    trained = {s.rollout.id for b in batches for s in b.samples}
    assert trained & {r.id for r in recalled}
    again = make.pipeline(plan, task=task, prompts=4, records=read_rollouts)
    again.load_state_dict(pipeline.state_dict())
    assert any(r.origin == "replay" for g in again.next_batch().groups for r in g.rollouts)
    del earlier


class Swapped(make.CoinTask):
    """Trains on what another run holds out."""

    def problems(self, codec: Any) -> Problems:
        found = super().problems(codec)
        return Problems(train=found.heldout, heldout=found.train)


def test_another_run_s_held_out_prompts_are_refused(tmp_path: Path) -> None:
    def write(batch: RolloutBatch) -> None:
        write_rollouts(tmp_path, batch=batch)

    run(load("two_replays"), task=Swapped(), updates=1, sink=write)
    plan, own = load("experience", folder=str(tmp_path)), make.CoinTask()
    heldout = own.problems(make.CODEC).heldout
    with pytest.raises(PartError, match="is held out in this run"):
        run(plan, task=own, heldout=heldout, records=read_rollouts)


def test_a_selector_and_two_allocators_work_together() -> None:
    _, batches = run(load("allotted"), updates=6)
    sizes = Counter(len(g.rollouts) for b in batches for g in b.groups)
    assert set(sizes) == {4, 6}
    metrics = batches[-1].metrics
    assert metrics["controls.shortest/put_back"] == 4
    assert metrics["controls.more/given"] == 2 * sizes[6]
    assert metrics["controls.capped/capped"] > 0
    capped = [
        r for b in batches for g in b.groups for r in g.rollouts if len(r.prompt.tokens) <= 12
    ]
    assert max(map(len, capped)) <= 24
