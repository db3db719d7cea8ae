"""Groups that outlive a batch: they go on in the next one, and from a checkpoint."""

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.control.oversample import Oversample
from gfcr.ledger import IN_FLIGHT, TRAINED
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Rollout, RolloutBatch

NAMES = ["grpo", "multi_turn", "treerl", "reinforce_ada"]


def pipeline(name: str, *, keeps: bool = True) -> Any:
    plan = strategies.load(name)
    plan = replace(plan, controls={**plan.controls, "more": Oversample(factor=2)})
    task = make.CoinTask(rates=(0.4, 0.6))
    engine = {"mean_length": 30.0}
    return make.pipeline(plan, task=task, prompts=3, keeps=keeps, engine=engine)


def updates(run: Any, *, num: int) -> list[RolloutBatch]:
    batches: list[RolloutBatch] = []
    for _ in range(num):
        run.sync((), version=run.step)
        batches.append(run.next_batch())
    return batches


def places(rollouts: Iterable[Rollout]) -> set[tuple[str, int]]:
    """Every generated token of the rollouts, by request and position."""
    spans = (s for r in rollouts for s in r.spans)
    return {(s.request_id, at) for s in spans for at in range(s.start, s.stop)}


def closed(run: Any) -> bool:
    tokens = run.tokens()
    return tokens["remainder"] == 0 and run.ledger.total == tokens["generated"]


def test_a_batch_that_keeps_nothing_leaves_nothing_in_flight() -> None:
    run = pipeline("grpo", keeps=False)
    batch = updates(run, num=1)[0]
    assert batch.aborted and IN_FLIGHT not in run.tokens() and closed(run)
    assert run.state_dict()["in_flight"] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_one_batch_began_another_trains_on_and_no_token_counts_twice(name: str) -> None:
    run = pipeline(name)
    batches = updates(run, num=4)
    assert run.tokens()[IN_FLIGHT] and closed(run)
    steps = Counter(b.step - s.rollout.step for b in batches for s in b.samples)
    assert set(steps) > {0} and min(steps) == 0
    versions = [set(s.rollout.versions_T[s.rollout.mask_T]) for b in batches for s in b.samples]
    assert any(len(each) > 1 for each in versions), "a rollout is of several policies"
    trained = [places(s.rollout for s in b.samples) for b in batches]
    assert sum(map(len, trained)) == len(set[Any]().union(*trained)) == run.tokens()[TRAINED]
    # What is begun makes up for what is in flight: it does not pile up.
    assert all(len({g.prompt.id for g in b.groups}) <= 6 for b in batches)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_is_killed_goes_on_from_its_partial_rollouts(name: str) -> None:
    killed = pipeline(name)
    before = updates(killed, num=2)
    state = pickle.loads(pickle.dumps(killed.state_dict()))
    partial = {r.id: r for begun in state["in_flight"] for r in begun.partial}
    verified = {r.id: r for begun in state["in_flight"] for r in begun.verified}
    held = places([*partial.values(), *verified.values()])
    in_flight = killed.tokens()[IN_FLIGHT]
    updates(killed, num=1)  # what comes after the checkpoint is lost with the process
    run = pipeline(name)
    run.load_state_dict(state)
    assert closed(run) and run.tokens()[IN_FLIGHT] == in_flight == len(held)
    after = updates(run, num=3)
    assert closed(run)
    trained = [places(s.rollout for s in b.samples) for b in [*before, *after]]
    assert sum(map(len, trained)) == len(set[Any]().union(*trained)) == run.tokens()[TRAINED]
    afresh = [r for r in after[0].aborted if "afresh" in r.detail]
    used = set[Any]().union(*trained)
    if name == "treerl":
        assert partial and {r.id for r in afresh} == {*partial}
        assert not used & places(partial.values())
        assert {r.finish for r in afresh} == {FinishReason.ABORTED}
        assert run.tokens()["aborted"] >= len(places(afresh)) > 0
    else:
        assert not afresh and used & held, "what was generated is trained on, once"
