"""The laws of schedules: who makes a batch, how old it may be, and that nothing is lost."""

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.errors import GfcrError, PartError
from gfcr.schedule.ahead import Ahead
from gfcr.schedule.base import Schedule, Standing
from gfcr.schedule.lag import Lag
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch
from tests import loops
from tests.cases import over
from tests.schedules import LAST, Slow, Work, ages, closed, outcome, trained

ASYNC: Any = registry.find("schedule", "async")


def work(
    name: str = "grpo", *, on: Callable[[Any], Any] = lambda engine: engine, **changes: Any
) -> Work:
    task = make.CoinTask(rates=(0.3, 0.6, 0.0))
    plan = strategies.load(name)
    return Work(
        make.pipeline(plan, task=task, prompts=3, engine={"mean_length": 20.0}, on=on), **changes
    )


def run_on(made: Work, schedule: Schedule, *, beside: bool, **given: Any) -> list[RolloutBatch]:
    with Ahead(made, schedule=schedule, last=LAST, beside=beside) as run:
        return trained(run, **given)


# ---------------------------------------------------------------- what equals what


@pytest.mark.slow
@over(
    ("name", "beside", "late"),
    [
        ("dapo", True, "ready_first"),
        ("april", True, "drop"),
        ("repo", False, "ready_first"),
    ],
)
def test_without_staleness_it_is_sync_token_for_token(name: str, beside: bool, late: Any) -> None:
    alone, other = work(name), work(name)
    batches = trained(alone)
    found = run_on(other, ASYNC(staleness=0, late=late), beside=beside)
    assert outcome(found) == outcome(batches) and len(batches) == LAST
    assert other.pipeline.tokens() == alone.pipeline.tokens()


@pytest.mark.slow
@over(("name", "updates"), [("grpo", 1), ("dapo", 3), ("april", 2)])
def test_a_lag_is_the_same_run_beside_the_trainer_and_in_turn(name: str, updates: int) -> None:
    runs = [work(name), work(name)]
    found = [run_on(w, Lag(updates=updates), beside=b) for w, b in zip(runs, (0, 1), strict=True)]
    assert outcome(found[0]) == outcome(found[1])
    assert all(map(closed, runs))
    if name == "april":  # its own buffer brings older ones
        return
    for batch in found[1]:
        versions = {int(v) for s in batch.samples for v in s.rollout.versions_T[s.rollout.mask_T]}
        assert versions == {max(0, batch.step - updates)}
        if batch.step >= updates:
            assert batch.metrics["off_policy/staleness"] == updates


def test_a_pause_leaves_every_batch_to_the_policy_that_makes_it_without_one() -> None:
    """The trainer may be further than the policy at which the run pauses: that is gone after it."""
    whole = run_on(work(), Lag(updates=3), beside=False)
    slow = lambda engine: Slow(engine, takes=[0.0005], draw=Random(0))  # noqa: E731
    paused, later = work(on=slow, paused_at=1), work()
    with Ahead(paused, schedule=Lag(updates=3), last=LAST, beside=True) as run:
        before = trained(run)
        state = pickle.loads(pickle.dumps(run.state_dict()))
    with Ahead(later, schedule=Lag(updates=3), last=LAST, beside=False) as run:
        run.load_state_dict(state)
        after = trained(run, first=len(before))
    assert len(before) < LAST, "it pauses"
    assert outcome([*before, *after]) == outcome(whole)


# ---------------------------------------------------------------- the bound


@pytest.mark.slow
@given(
    st.integers(0, 3),
    st.sampled_from(["wait", "ready_first", "drop"]),
    st.sampled_from(["grpo", "dapo", "april", "treerl"]),
    st.integers(0, 10**6),
)
@settings(max_examples=4, deadline=None)
def test_no_trained_token_is_older_than_the_bound_whatever_takes_how_long(
    staleness: int, late: Any, name: str, seed: int
) -> None:
    made, draw = (
        work(name, on=lambda engine: Slow(engine, takes=[0, 0, 0.0005, 0.002], draw=Random(seed))),
        Random(seed + 1),
    )
    schedule = ASYNC(staleness=staleness, late=late)
    wait = lambda step, run: time.sleep(draw.choice([0, 0, 0.002, 0.01]))  # noqa: E731
    batches = run_on(made, schedule, beside=True, save=wait)
    own = ages(batches)
    assert len(batches) == LAST and min(own) >= 0
    assert max(own) <= (staleness if name != "april" else 4 + staleness)
    assert closed(made), made.pipeline.tokens()


@pytest.mark.slow
@over(("name", "late"), [("grpo", "wait"), ("multi_turn", "ready_first")])
def test_rollouts_beside_a_trainer_are_of_several_policies(name: str, late: Any) -> None:
    for takes in (0.004, 0.02, 0.1):  # seconds a step: on a busy machine the trainer is slow too
        made = work(name, on=lambda engine, s=takes: Slow(engine, takes=[s], draw=Random(0)))
        batches = run_on(made, ASYNC(staleness=2, late=late), beside=True)
        versions = [{*map(int, s.rollout.versions_T)} - {-1} for b in batches for s in b.samples]
        assert max(ages(batches)) <= 2 and closed(made)
        if any(len(each) > 1 for each in versions):
            break
    else:
        pytest.fail("each rollout is of one policy")
    assert max(ages(batches)) > 0


def test_the_batch_that_is_learned_from_first_goes_first_its_refills_too() -> None:
    """Seats for two: what comes late for the earlier batch does not wait behind the next one."""
    asked: list[tuple[int, str]] = []

    class Noted:
        def __init__(self, engine: Any) -> None:
            self._engine = engine

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

        def submit(self, request: Any) -> None:
            asked.append((request.priority, request.id))
            self._engine.submit(request)

    plan, few = strategies.load("dapo"), {"mean_length": 20.0, "max_running": 2}
    task = make.CoinTask(rates=(0.3, 0.6, 0.0))
    pipeline = make.pipeline(plan, task=task, prompts=3, engine=few, on=Noted)
    making, ended = pipeline.making, list[int]()
    for step in (0, 1):
        making.open(step, update=step)
    at_once = len(asked)
    while len(ended) < 2:
        making.turn()
        ended += [step for step, c in making.opened.items() if c.done and step not in ended]
    by_batch = [[p for p, i in asked if i.startswith(f"{step}:")] for step in (0, 1)]
    assert len(asked) > at_once and all(by_batch), "there were refills"
    assert max(by_batch[0]) < min(by_batch[1])
    assert ended == [0, 1]


def test_a_batch_that_has_become_too_old_is_dropped_and_counted() -> None:
    part = ASYNC(staleness=1, late="drop")
    at = Standing(first=0, loaded=2, closed=2, opened={0: 0, 2: 1}, done=())
    assert part.drops(at) == [0] and not ASYNC(staleness=2, late="drop").drops(at)
    made = work()
    for step in (0, 1):
        made.pipeline.making.open(step, update=step)
    made.pipeline.making.turn()
    made.pipeline.making.drop(0)
    while not made.pipeline.making.opened[1].done:
        made.pipeline.making.turn()
    batch = made.pipeline.close_batch(1, update=0, version=0)
    stale = [g for g in batch.groups if g.rejected == "stale"]
    lost = sum(len(r) for r in batch.aborted if r.step == 0)
    assert {s.rollout.step for s in batch.samples} == {1} and closed(made)
    assert made.pipeline.tokens().get("stale", 0) == sum(len(r) for g in stale for r in g.rollouts)
    assert lost and made.pipeline.tokens()["aborted"] == lost


def test_a_batch_that_fails_is_not_recorded_in_the_place_of_one_that_went_first() -> None:
    recorded = dict[int, RolloutBatch]()

    def fails(trajectory: Any) -> None:
        if trajectory.id.startswith("0:") and recorded:
            raise RuntimeError("it fails")

    script = make.scripted(lambda request: "7" * (30 if request.id.startswith("0:") else 3))
    run = loops.run(
        loops.Told(hook="watch", answer=fails),
        script=script,
        sink=lambda batch: recorded.update({batch.step: batch}),
    )
    for number in (0, 1):
        run.making.open(number, update=number)
    while not run.making.opened[1].done:
        run.making.turn()
    first = run.close_batch(1, update=0, version=0)
    with pytest.raises(PartError, match="it fails"):
        run.making.turn()
    assert recorded[0] is first and [*recorded] == [0, 1] and recorded[1].aborted


def test_parts_are_told_the_update_that_a_batch_is_for_however_many_were_dropped() -> None:
    """What was cut for the last batch is one update old then, and is gone on with."""
    made = work("april")
    making, draws = made.pipeline.making, set[float]()
    for number in range(6):
        making.open(number, update=0)
        draws.add(making.opened[number].view.rng("a part").random())
        making.turn()
        making.drop(number)
    batches: list[RolloutBatch] = []
    for update in range(2):
        number = 6 + update
        making.open(number, update=update)
        assert making.opened[number].view.step == update
        while not making.opened[number].done:
            making.turn()
        made.pipeline.sync((), version=update + 1)
        batches.append(made.pipeline.close_batch(number, update=update))
    assert len(draws) == 6, "batches for one update draw alike"
    held = batches[0].metrics["replays.partial_rollouts/held_tokens"]
    assert held and batches[1].metrics["replays.partial_rollouts/resumed_tokens"] == held
    begun = [{r.step for g in batch.groups for r in g.rollouts} for batch in batches]
    assert begun == [{0}, {1}], "replayed groups are as old as the updates since"
    ids = [{g.id for g in batch.groups} for batch in batches]
    assert not ids[0] & ids[1] and closed(made)


@dataclass(kw_only=True)
class Dropping(Lag):
    """Gives up the first batches that it begins, whatever becomes of them."""

    first: int = 6

    def drops(self, at: Standing) -> list[int]:
        return [number for number in at.opened if number < self.first]


def test_batches_begun_after_others_were_dropped_are_for_the_updates_that_come() -> None:
    made = work()
    batches = run_on(made, Dropping(), beside=False)
    assert len(batches) == LAST and closed(made)
    for batch in batches:
        assert {s.rollout.step for s in batch.samples} <= {batch.step}
        assert {s.rollout.group_id.partition(":")[0] for s in batch.samples} <= {
            str(batch.step + 6)
        }


@over(
    ("opened", "done", "closed_", "closes"),
    [
        ({0: 0, 1: 0, 2: 0}, [1], 0, 1),
        ({0: 0, 2: 0, 3: 1}, [3], 1, None),  # 0 and 2 are due at updates 1 and 2
        ({0: 0, 2: 0, 3: 1}, [3, 2], 1, 2),
        ({0: 0, 3: 1, 4: 2}, [4], 2, None),
    ],
)
def test_another_batch_is_learned_from_first_where_none_becomes_too_old(
    opened: Any, done: Any, closed_: int, closes: int | None
) -> None:
    at = Standing(first=0, loaded=closed_, closed=closed_, opened=opened, done=done)
    assert ASYNC(staleness=2, late="ready_first").closes(at) == closes
    assert ASYNC(staleness=2, late="drop").closes(at) == done[0]
    waits = ASYNC(staleness=2).closes(at)
    assert waits == (0 if 0 in done else None)


# ---------------------------------------------------------------- the trainer's word


@pytest.mark.slow
@over("beside", [False, True])
def test_parts_hear_of_each_update_once_in_order_and_before_its_policy(beside: bool) -> None:
    for schedule in (Lag(updates=1), Lag(updates=2), ASYNC(staleness=2)):
        made = work()
        run_on(made, schedule, beside=beside)
        told = [each[:2] for each in made.asked if each[0] != "made"]
        expected: list[Any] = [("sync", 0)]
        for update in range(LAST):
            expected += [("masked", update), ("updated", update + 1), ("sync", update + 1)]
        assert told == expected, schedule


class Meanwhile(threading.Condition):
    """A lock that the trainer may get just before or after: it says once what it has to say."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def __enter__(self) -> bool:
        says, self.before = self.before, None
        if says is not None:
            says()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        says, self.after = self.after, None
        if says is not None:
            says()


def test_what_the_trainer_says_at_one_time_is_heard_in_its_order_and_is_in_the_state() -> None:
    made, state = work(), list[Any]()

    def ends_and_asks() -> None:
        run.updated(step=1, metrics={})
        run._asked = state

    def ends_and_goes_on() -> None:
        run.updated(step=2, metrics={})
        run.sync((), version=2)

    with Ahead(made, schedule=ASYNC(staleness=1), last=LAST, beside=False) as run:
        run._changed = lock = Meanwhile()
        run.sync((), version=0)
        assert run.next_batch()
        lock.after = ends_and_asks
        while not state:
            run._go_on()
        assert ("updated", 1) in [each[:2] for each in made.asked]
        run.sync((), version=1)
        assert run.next_batch()
        lock.before = ends_and_goes_on
        while ("sync", 2) not in [each[:2] for each in made.asked]:
            run._go_on()
    told = [each[:2] for each in made.asked if each[0] != "made"]
    assert told == [("sync", 0), ("updated", 1), ("sync", 1), ("updated", 2), ("sync", 2)]


@pytest.mark.slow
def test_the_queue_of_each_update_is_logged_and_is_what_is_ahead() -> None:
    """In turn a lag of two has all that it may make ready before the trainer goes on."""
    for beside in (False, True):
        made = work()
        run_on(made, Lag(updates=2), beside=beside)
        ready = [each[2]["schedule/ready"] for each in made.asked if each[0] == "updated"]
        assert len(ready) == LAST and all(0 <= n <= 2 for n in ready) and ready[-1] == 0
        if not beside:
            assert ready == [2, 2, 2, 2, 1, 0]


@pytest.mark.slow
def test_what_the_trainer_changes_is_copied_before_it_does() -> None:
    made = work(on=lambda engine: Slow(engine, takes=[0.004], draw=Random(0)))
    policy = Tensor(0)
    with Ahead(made, schedule=Lag(updates=2), last=LAST, beside=True) as run:
        for version in range(LAST):
            run.sync(iter([("w", policy)]), version=version)
            batch = run.next_batch()
            assert batch is not None
            policy.value = version + 1  # the optimizer's step, in place
            run.updated(step=version + 1, metrics={})
        run.sync(iter([("w", policy)]), version=LAST)
    given_ = [(each[1], each[2][0]) for each in made.asked if each[0] == "sync"]
    assert given_ == [(v, v) for v in range(LAST + 1)]


@over("beside", [False, True])
@over("schedule", [Lag(updates=2), ASYNC(staleness=2)])
def test_what_was_begun_is_learned_from_when_the_budget_is_spent(
    schedule: Schedule, beside: bool
) -> None:
    made = work(spent_at=2)
    batches = run_on(made, schedule, beside=beside)
    assert 2 <= len(batches) < LAST and closed(made)
    assert len([a for a in made.asked if a[0] == "made"]) == len(batches)


def test_what_fails_beside_the_trainer_is_raised_there() -> None:
    made = work()
    made.pipeline.making.open = _fails  # type: ignore[method-assign]
    with pytest.raises(GfcrError, match="no more prompts"):
        run_on(made, Lag(), beside=True)
    with (
        pytest.raises(ZeroDivisionError),
        Ahead(work(), schedule=ASYNC(), last=LAST, beside=True) as run,
    ):
        run.sync((), version=0)
        run.next_batch()
        raise ZeroDivisionError


# ---------------------------------------------------------------- checkpoints


@pytest.mark.slow
@over(
    ("name", "schedule", "beside"),
    [
        ("grpo", Lag(updates=3), False),
        ("dapo", ASYNC(staleness=2), True),
        ("april", Lag(updates=1), True),
        ("repo", ASYNC(staleness=0), False),
    ],
)
def test_a_run_that_is_killed_goes_on_and_counts_no_token_twice(
    name: str, schedule: Any, beside: bool
) -> None:
    whole = run_on(work(name), schedule, beside=beside)
    kept: list[bytes] = []

    def save(step: int, run: Any) -> None:
        if step == 3:
            kept.append(pickle.dumps(run.state_dict()))

    first = run_on(work(name), schedule, beside=beside, until=4, save=save)[:3]
    made = work(name)
    with Ahead(made, schedule=schedule, last=LAST, beside=beside) as run:
        run.load_state_dict(pickle.loads(kept[0]))
        assert not made.pipeline.tokens()["remainder"]
        rest = trained(run, first=3)
    assert [b.step for b in [*first, *rest]] == list(range(LAST)) and closed(made)
    places = [
        (s.request_id, at)
        for b in [*first, *rest]
        for x in b.samples
        if x.rollout.origin == "fresh"
        for s in x.rollout.spans
        for at in range(s.start, s.stop)
    ]
    assert name == "repo" or len(places) == len({*places})
    if schedule.waits or schedule == ASYNC(staleness=0):
        assert outcome([*first, *rest]) == outcome(whole), "the same as in one piece"


# ---------------------------------------------------------------- means


@dataclass
class Tensor:
    """As much of a tensor as is copied."""

    value: int

    def detach(self) -> "Tensor":
        return self

    def clone(self) -> "Tensor":
        return Tensor(self.value)


def _fails(number: int, *, update: int) -> None:
    raise GfcrError("no more prompts")


@pytest.mark.slow
def test_what_a_weight_sync_sends_is_logged_with_the_batch_that_it_is_for() -> None:
    class Sends:
        """An engine on servers, as far as its counters go."""

        def __init__(self, engine: Any) -> None:
            self._engine, self._syncs = engine, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

        def update_weights(self, weights: Any, *, version: int) -> None:
            self._engine.update_weights(weights, version=version)
            self._syncs += 1

        def stats(self) -> Any:
            told, changed = self._engine.stats(), 100 + 5 * (self._syncs - 1)
            own = {"weight_bytes": 7 * self._syncs, "weight_elements": 100 * self._syncs}
            return replace(told, **own, weights_changed=changed if self._syncs else 0)

    for schedule, beside in ((None, False), (Lag(updates=1), False), (ASYNC(staleness=1), True)):
        made = work(on=Sends)
        batches = run_on(made, schedule, beside=beside) if schedule else trained(made)
        sent = [b.metrics.get("engine/weight_bytes", 0.0) for b in batches]
        density = [b.metrics.get("engine/weight_density") for b in batches]
        assert sent[0] == 7 and density[0] == 1.0
        if schedule is None:
            assert sent == [7] * LAST and density[1:] == [0.05] * (LAST - 1)
        assert LAST * 7 - 14 <= sum(sent) <= LAST * 7
