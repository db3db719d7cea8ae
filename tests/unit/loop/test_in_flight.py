"""Groups that outlive a batch: they go on in the next one, and from a checkpoint."""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gfcr import strategy as strategies
from gfcr.control.oversample import Oversample
from gfcr.ledger import IN_FLIGHT, TRAINED
from gfcr.tasks.base import Asked, Verdict
from gfcr.testing import factories as make
from gfcr.train import state_file
from gfcr.types import FinishReason, Rollout, RolloutBatch
from tests import loops
from tests.cases import over
from tests.loops import aborts, evaluate


@dataclass(kw_only=True)
class Ranked(make.CoinTask):
    """Scores in one call whatever waits, and notes whose answers those are."""

    together: ClassVar[bool] = True
    calls: list[list[str]] = field(default_factory=list[list[str]])

    def verify_all(self, asked: Sequence[Asked]) -> Sequence[Verdict]:
        self.calls.append([each.prompt.id for each in asked])
        return super().verify_all(asked)


NAMES = ["grpo", "multi_turn", "treerl", "reinforce_ada"]


def pipeline(name: str) -> Any:
    plan = strategies.load(name)
    task = make.CoinTask(rates=(0.4, 0.6))
    return make.pipeline(plan, task=task, prompts=3, engine={"mean_length": 30.0})


def updates(run: Any, *, num: int) -> list[RolloutBatch]:
    """Two batches are in the making at a time; each is learned from in the order it was begun."""
    batches: list[RolloutBatch] = []
    for _ in range(num):
        run.sync((), version=run.step)
        for step in (run.step, run.step + 1):
            if step not in run.making.opened:
                run.making.open(step, update=step)
        run.making.turn()
        while not run.making.opened[run.step].done:
            run.making.turn()
        batches.append(run.close_batch(run.step))
    return batches


def places(rollouts: Iterable[Rollout]) -> set[tuple[str, int]]:
    """Every generated token of the rollouts, by request and position."""
    spans = (s for r in rollouts for s in r.spans)
    return {(s.request_id, at) for s in spans for at in range(s.start, s.stop)}


def closed(run: Any) -> bool:
    tokens = run.tokens()
    return tokens["remainder"] == 0 and sum(run.ledger.bins().values()) == tokens["generated"]


def test_a_batch_leaves_nothing_in_flight() -> None:
    plan = strategies.load("grpo")
    plan = replace(plan, controls={"more": Oversample(factor=2)})
    run = make.pipeline(plan, task=make.CoinTask(rates=(0.4, 0.6)), prompts=3)
    batch = run.next_batch()
    assert batch.aborted and IN_FLIGHT not in run.tokens() and closed(run)
    held = run.state_dict()["making"]
    assert [held[name] for name in ("opened", "dropped", "in_flight")] == [[], [], []]


def test_an_evaluation_costs_the_batch_in_the_making_nothing() -> None:
    run = pipeline("grpo")
    run.making.open(0, update=0)
    run.making.turn()
    evaluate(run)
    while not run.making.opened[0].done:
        run.making.turn()
    batch, tokens = run.close_batch(0), run.tokens()
    assert batch.cost.generated_tokens == tokens["generated"] - tokens["evaluation"]
    assert tokens["evaluation"] > 0 and closed(run)


def test_an_evaluation_s_answers_are_compared_with_none_of_the_batch_in_the_making() -> None:
    task = Ranked()
    run = loops.run(task=task, engine={"max_running": 2})
    run.making.open(0, update=0)
    while not run.desk.busy:
        run.making.turn()
    evaluate(run)
    assert task.calls == [[prompt.id for prompt in loops.HELDOUT]]
    while not run.making.opened[0].done:
        run.making.turn()
    assert len(task.calls) == 2 and len(task.calls[1]) == 8, "nor is a group torn apart"


def two(name: str, *, task: Ranked, long: int) -> Any:
    """A run of two batches in the making, of which one has long answers, the other short ones."""
    script = make.scripted(lambda r: "7" * (12 if r.id.startswith(f"{long}:") else 3))
    plan = strategies.load(name, group_size=4)
    run = make.pipeline(plan, task=task, prompts=2, script=script)
    for step in range(2):
        run.making.open(step, update=step)
    return run


def turned(run: Any, *, step: int) -> None:
    for _ in range(200):
        if run.making.opened[step].done:
            return
        run.making.turn()
    raise AssertionError(f"batch {step} is never done")


@over("name", ["grpo", "self_repair"])
def test_a_batch_is_scored_together_though_a_later_one_is_decoded(name: str) -> None:
    run = two(name, task=(task := Ranked()), long=1)
    turned(run, step=0)
    assert run.engine.step() and not run.making.opened[1].done
    own = {r.prompt.id.partition("~")[0] for g in run.close_batch(0).groups for r in g.rollouts}
    assert {prompt for call in task.calls for prompt in call} <= own


def test_what_a_later_batch_has_waiting_is_scored_with_the_rest_of_it() -> None:
    run = two("grpo", task=(task := Ranked()), long=0)
    turned(run, step=0)
    turned(run, step=1)
    assert [len(call) for call in task.calls] == [8, 8]
    assert not {*task.calls[0]} & {*task.calls[1]}


@pytest.mark.slow
@over("name", NAMES)
def test_batches_are_in_the_making_together_and_no_token_counts_twice(name: str) -> None:
    run = pipeline(name)
    batches = updates(run, num=4)
    assert run.tokens()[IN_FLIGHT] and closed(run)
    assert all(s.rollout.step == b.step for b in batches for s in b.samples)
    versions = [set(s.rollout.versions_T[s.rollout.mask_T]) for b in batches for s in b.samples]
    assert any(len(each) > 1 for each in versions), "a rollout is of several policies"
    assert all(
        b.step - min(s.rollout.versions_T[s.rollout.mask_T]) <= 1
        for b in batches
        for s in b.samples
    )
    trained = [places(s.rollout for s in b.samples) for b in batches]
    assert sum(map(len, trained)) == len(set[Any]().union(*trained)) == run.tokens()[TRAINED]


@over("name", NAMES)
def test_what_is_cut_with_one_batch_leaves_the_other_s_alone(name: str) -> None:
    run = pipeline(name)
    run.sync((), version=0)
    run.making.open(0, update=0)
    run.making.open(1, update=1)
    run.making.turn()
    run.making.drop(0)
    assert [*run.making.opened] == [1] and not run.making.opened[1].done
    while not run.making.opened[1].done:
        run.making.turn()
    batch = run.close_batch(1, update=0)
    assert closed(run) and IN_FLIGHT not in run.tokens() and not run.engine.step()
    assert {r.step for r in batch.aborted} >= {0} and {s.rollout.step for s in batch.samples} == {1}


@pytest.mark.whole
@over("name", NAMES)
def test_a_run_that_is_killed_goes_on_from_its_partial_rollouts(name: str) -> None:
    killed = pipeline(name)
    before = updates(killed, num=2)
    state = pickle.loads(pickle.dumps(killed.state_dict()))
    in_making = state["making"]["in_flight"]
    partial = {r.id: r for begun in in_making for r in begun.partial}
    verified = {r.id: r for begun in in_making for r in begun.verified}
    judged = [r for opened in state["making"]["opened"] for g in opened.groups for r in g.rollouts]
    held = places([*partial.values(), *verified.values(), *judged])
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


def test_what_a_batch_has_made_and_cost_outlives_a_checkpoint() -> None:
    parts = [aborts("0"), strategies.load("self_judge").controls["judge"]]
    run, again = (loops.run(*parts, prompts=3, engine={"max_running": 2}) for _ in range(2))
    run.sync((), version=3)
    run.making.open(0, update=0)
    for groups in (1, 2):  # a second checkpoint keeps what the first one did, too
        while len(run.making.opened[0].view.groups) < groups:
            run.making.turn()
        state = run.state_dict()
    assert not run.making.opened[0].done
    again.load_state_dict(state)
    (was,), (now,) = state["making"]["opened"], again.state_dict()["making"]["opened"]
    assert (was.version, was.round, sum(was.uses.values())) == (3, 1, len(was.begun))
    assert (now.version, now.round, now.uses) == (was.version, was.round, was.uses)
    while not again.making.opened[0].done:
        again.making.turn()
    batch = again.close_batch(0)
    made = [*(r for g in batch.groups for r in g.rollouts), *batch.aborted, *batch.asides]
    assert len(places(made)) == again.tokens()["generated"] == batch.cost.generated_tokens
    assert batch.cost.verifier_calls == sum(each.desk.verifier_calls for each in (run, again))
    assert IN_FLIGHT not in again.tokens() and closed(again)


@over("name", ["answer_stop", "repetition_stop", "treepo"])
def test_what_watchers_know_of_rollouts_in_the_making_is_found_out_again(
    name: str, tmp_path: Path
) -> None:
    """A checkpoint between batches would not notice: nothing is in the making then."""
    run, again = pipeline(name), pipeline(name)
    updates(run, num=2)
    for _ in range(3):
        run.making.turn()
    state_file.write(tmp_path, state=run.state_dict())
    again.sync((), version=run.step)
    again.load_state_dict(state_file.read(tmp_path))
    batches = updates(again, num=2)
    assert all(b.samples for b in batches) and closed(again)
