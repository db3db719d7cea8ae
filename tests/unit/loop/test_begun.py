"""Groups in flight: the order they come in, what is cut of them, and what a checkpoint keeps."""

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from gfcr.loop.cell import Begun
from gfcr.stages import (
    BATCH_FULL,
    Abort,
    Cap,
    Control,
    Evaluator,
    Generate,
    Halt,
    SampleMore,
    Scratch,
    Session,
    Watcher,
)
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group
from tests.cases import over
from tests.loops import (
    TRAIN,
    aborts,
    brought,
    complete,
    cut_after,
    ground,
    held,
    idle,
    start,
    steps,
    tokens,
)

# ---------------------------------------------------------------- order, repeats, cuts


def test_groups_are_taken_as_they_complete_and_finished_as_they_were_begun() -> None:
    taking, finishing = ground(), ground()
    for on in (taking, finishing):
        for number, length in ((0, 6), (1, 2), (2, 4)):
            start(on, number, length=length)
    assert held(taking.runner) == 3 and taking.runner.take() is None
    taken: list[Any] = []
    while held(taking.runner):
        taking.runner.advance()
        while (cell := taking.runner.take()) is not None:
            taken.append(cell)
    assert [(c.id, c.number) for c in taken] == [("g1", 2), ("g2", 3), ("g0", 1)]
    assert [g.id for g in finishing.runner.finish()] == ["g0", "g1", "g2"]
    assert idle(taking) and idle(finishing)


def test_a_prompt_that_is_begun_again_has_other_draws() -> None:
    first, again, none = ground(), ground(), ground()
    job = first.view.job(TRAIN[0])
    first.runner.start(job, group_id="g", view=first.shown)
    none.runner.start(job, group_id="g", view=none.shown, repeat=0)
    again.runner.start(job, group_id="g", view=again.shown, repeat=1)
    found = [tokens(on.runner.finish()[0].rollouts) for on in (first, none, again)]
    assert found[0] == found[1] != found[2]


def test_more_rollouts_join_behind_those_there_are_and_resume_nothing() -> None:
    on = ground()
    (resumed,) = brought(on, cut_after(1))
    start(on, 0, resume=(resumed,), notes={"a": 1.0, "b": 1.0})
    cell = complete(on)
    first = cell.group.rollouts
    on.runner.more(cell, action=SampleMore(num_samples=3, notes={"b": 2.0}))
    assert cell.group is None and held(on.runner) == 1
    (group,) = on.runner.finish()
    assert group.rollouts[:2] == first and len(group.rollouts) == 5
    assert [r.id for r in group.rollouts] == [f"g0/{i}" for i in range(5)]
    assert group.rollouts[0].spans[0] == resumed.spans[0]
    assert all(len(r.spans) == 1 for r in group.rollouts[1:])
    assert group.values == {"a": 1.0, "b": 1.0}, "what is said of the group is its first job's"


@dataclass(kw_only=True)
class Judge(Control, Evaluator):
    """Asks on the side for each rollout in turn, and says how long the answers were."""

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        for rollout in group.rollouts:
            await scratch.aside(rollout.text, role="judge").sample()
        return group.judged([float(len(group.rollouts))] * len(group.rollouts))


def test_a_cut_gives_back_every_rollout_and_leaves_nothing() -> None:
    on = ground(None, aborts("1"), Judge())
    start(on, 0, length=2)
    start(on, 1, length=9)
    start(on, 2, length=30)
    while held(on.runner) == 3 and not on.runner._ready:
        on.runner.advance()
    rollouts = on.runner.cut()
    assert sorted((r.id, r.finish.value) for r in rollouts) == [
        ("g0/0", "length"),
        ("g0/1", "aborted"),
        ("g1/0", "aborted"),
        ("g1/1", "aborted"),
        ("g2/0", "aborted"),
        ("g2/1", "aborted"),
    ]
    told = {r.id: r.detail for r in rollouts}
    assert told["g1/1"] == "controls.0: enough" and told["g1/0"] == BATCH_FULL
    asides = on.runner.take_asides()
    assert [a.role for a in asides] == ["judge"] and on.runner.take_asides() == []
    assert on.floor.ledger.bins() == {
        "in_flight": sum(map(len, rollouts)),
        "aside:judge": sum(map(len, asides)),
    }
    assert idle(on) and on.runner.cut() == []


@dataclass(kw_only=True)
class Notes(Control, Watcher):
    """Notes what it sees, and ends the second rollout at its third token."""

    action: Any = None
    seen: list[Any] = field(default_factory=list[Any])

    def watch(self, trajectory: Any, *, new: int, view: Any) -> Any:
        self.seen.append((trajectory.id, len(trajectory.tokens), new, view.step))
        return self.action if trajectory.name == "1" and len(trajectory.tokens) == 3 else None


@over("action", [Halt(reason="enough"), Abort(reason="enough")])
def test_watchers_see_each_step_of_each_rollout_until_one_ends_it(action: Any) -> None:
    """But not what a request ends with by itself, nor what is asked on the side."""
    first, second = Notes(action=action), Notes()
    on = ground(None, first, second, Judge(), length=4)
    start(on)
    (group,) = on.runner.finish()
    own = [(f"g0/{i}", num, 1, 0) for num in (1, 2, 3) for i in (0, 1)]
    assert first.seen == own and second.seen == own[:-1]
    halted = isinstance(action, Halt)
    ended = [*group.rollouts, *on.runner.take_cut()][1]
    assert (ended.finish.value, ended.detail) == (
        "halted" if halted else "aborted",
        "controls.0: enough",
    )
    assert len(group.rollouts) == 1 + halted and len(on.runner.take_asides()) == 1 + halted


def test_a_cap_of_a_watcher_is_the_engine_s() -> None:
    for most, length in ((2, 5), (20, 9)):  # but not beyond the rollout's own
        on = ground(None, Notes(action=Cap(max_tokens=most)), length=9)
        start(on)
        (group,) = on.runner.finish()
        assert [len(r) for r in group.rollouts] == [9, length]


def test_a_cut_of_a_group_that_more_is_sampled_for_gives_back_the_first_ones_too() -> None:
    on = ground()
    start(on)
    on.runner.more(complete(on), action=SampleMore(num_samples=1))
    on.runner.advance()
    assert [(r.id, len(r)) for r in on.runner.cut()] == [("g0/0", 6), ("g0/1", 6), ("g0/2", 1)]
    assert idle(on)


# ---------------------------------------------------------------- checkpoints


@dataclass(kw_only=True)
class InTurn(Generate):
    """One rollout after the other; goes on from what a job brings."""

    resumes: ClassVar[bool] = True

    async def run(self, session: Session) -> None:
        for index in range(session.job.num_samples):
            await session.open(index).sample()


@dataclass(kw_only=True)
class Afresh(InTurn):
    """The same, but it cannot go on."""

    resumes: ClassVar[bool] = False


def carried(on: Any, to: Any) -> list[Begun]:
    """The groups of one runner, as they are carried to another, which goes on with them."""
    state = pickle.loads(pickle.dumps(on.runner.state_dict()))
    to.floor.ledger.load_state_dict(pickle.loads(pickle.dumps(on.floor.ledger.state_dict())))
    views = {begun.group_id: to.shown for begun in state}
    to.runner.load_state_dict(state, views=views)
    assert not to.floor.engine.step(), "nothing is asked yet"
    to.floor.traffic.go_on()
    return state


def test_a_checkpoint_tells_what_each_group_in_flight_has() -> None:
    on = ground(InTurn(), aborts("1"), Judge())
    resume = brought(on, cut_after(2, number=1, samples=2))
    start(on, 0, num_samples=3, length=3)
    start(on, 1, num_samples=2, resume=resume, length=30)
    # g0: three tokens, one aborted, two of the third; g1: four of its first resumed one.
    steps(on, 6)
    first, second = on.runner.state_dict()
    assert (first.group_id, second.group_id) == ("g0", "g1")
    assert (first.opened, second.opened) == (3, 1)
    assert first.verified == second.verified == ()
    assert first.going == first.job and first.job.num_samples == 3
    assert [(r.id, len(r), r.finish) for r in first.partial] == [
        ("g0/0", 3, FinishReason.LENGTH),
        ("g0/2", 2, FinishReason.ABORTED),
    ]
    assert [(r.id, len(r), r.finish) for r in first.lost] == [("g0/1", 1, FinishReason.ABORTED)]
    assert [(r.id, len(r)) for r in second.partial] == [("g1/0", 2 + 6), (resume[1].id, 2)]
    assert second.partial[1] is resume[1] and second.lost == () == second.asides
    assert held(on.runner) == 2 and len(on.floor.traffic) == 2, "it goes on all the same"


def test_a_group_that_is_judged_keeps_what_was_verified_and_said() -> None:
    on, to = ground(None, Judge(), length=4), ground(None, Judge(), length=4)
    start(on)
    steps(on, 4 + 5)
    (begun,) = on.runner.state_dict()
    assert begun.going is None and begun.partial == () == begun.lost and begun.opened == 2
    assert [len(r) for r in begun.verified] == [4, 4]
    assert [(a.role, len(a)) for a in begun.asides] == [("judge", 4), ("judge", 1)]
    carried(on, to)
    (group,) = to.runner.finish()
    assert group.rollouts[0].reward == 2.0 and tokens(group.rollouts) == tokens(begun.verified)
    asides = to.runner.take_asides()
    assert [len(a) for a in asides] == [4, 1, 4, 4], "what was said before, and all of it again"
    assert to.floor.ledger.bins() == {"aside:judge": 13, "in_flight": 8}


@over("carry", [False, True])
def test_replayed_rollouts_join_as_they_are_and_only_the_others_are_made(carry: bool) -> None:
    """Also over a checkpoint; a cut rollout beside them is gone on from."""
    on, to = ground(length=5), ground(length=5)
    (cut,) = brought(on, cut_after(2))
    old = [replace(make.rollout(i), origin="replay", parent="g/9", step=-3) for i in range(2)]
    start(on, 0, num_samples=4, resume=(old[0], cut, old[1]))
    start(on, 1, num_samples=2, resume=tuple(old))
    steps(on, 1)
    if carry:
        carried(on, to)
    first, second = (to if carry else on).runner.finish()
    for group in (first, second):
        told = [(r.id, r.parent, r.step, r.origin, r.text, r.reward) for r in group.rollouts[:2]]
        assert told == [(r.id, r.parent, r.step, r.origin, r.text, r.reward) for r in old]
    made = first.rollouts[2:]
    assert len(second.rollouts) == 2, "nothing is made for it"
    assert [r.origin for r in made] == ["fresh"] * 2 and len({r.id for r in first.rollouts}) == 4
    assert made[0].spans[0] == cut.spans[0] not in made[1].spans


@over("done", [False, True])
def test_a_resumed_group_goes_on_from_its_partial_rollouts(done: bool) -> None:
    on, to = ground(), ground()
    start(on, 0, length=4)
    start(on, 1, length=9)
    steps(on, 4 if done else 2)
    begun = carried(on, to)
    assert [b.going is None for b in begun] == [done, False]
    prompts = {prompt.id: prompt.tokens for prompt in TRAIN}
    for request in (running.request for running in to.floor.engine._queue):
        had = len(request.tokens) - len(prompts[request.prompt_id])
        assert request.begun == had > 0, "drafters are told how far it is"
    groups = to.runner.finish()
    assert [g.id for g in groups] == ["g0", "g1"]
    for group, before in zip(groups, begun, strict=True):
        earlier = before.verified or before.partial
        assert [len(r) for r in group.rollouts] == [len(group.rollouts[0])] * 2
        for rollout, old in zip(group.rollouts, earlier, strict=True):
            assert tokens([rollout])[0][: len(old)] == tokens([old])[0]
            assert rollout.spans[0] == old.spans[0]
    assert to.runner.take_cut() == [] and idle(to)
    assert to.floor.ledger.bins() == {"in_flight": 2 * (4 + 9)}


@dataclass(kw_only=True)
class Sparse(Afresh):
    """Opens every fourth place, as second tries and turns have places of their own."""

    async def run(self, session: Session) -> None:
        opened = [session.open(4 * index) for index in range(session.job.num_samples)]
        await session.gather(*(trajectory.sample() for trajectory in opened))


@over("generate", [None, Sparse()])
def test_no_rollout_has_the_name_of_one_before_the_checkpoint(generate: Any) -> None:
    """Spans are by request, and requests by trajectory: the same name twice would mix them up."""
    on, to = ground(generate), ground(generate)
    start(on, num_samples=3)
    steps(on, 2)
    (begun,) = carried(on, to)
    (group,) = to.runner.finish()
    assert not {r.id for r in group.rollouts} & {r.id for r in begun.partial}
    own = [r.spans[-1].request_id for r in group.rollouts]
    assert not {*own} & {s.request_id for r in begun.partial for s in r.spans}


def test_what_a_watcher_had_aborted_is_not_made_again() -> None:
    on, to = ground(None, aborts("1")), ground(None, aborts("1"))
    start(on, num_samples=3)
    steps(on, 2)
    (begun,) = carried(on, to)
    assert [r.id for r in begun.lost] == ["g0/1"] and len(begun.partial) == 2
    cut = to.runner.take_cut()
    assert [(r.id, r.finish, r.detail) for r in cut] == [
        ("g0/1", FinishReason.ABORTED, "begun afresh after a checkpoint")
    ]
    (group,) = to.runner.finish()
    assert len(group.rollouts) == 2 and {len(r) for r in group.rollouts} == {6}


def test_where_generate_cannot_go_on_all_is_begun_again_and_the_old_is_lost() -> None:
    on, to = ground(Afresh()), ground(Afresh())
    start(on, length=3)
    start(on, 1, length=9)
    steps(on, 5)
    begun, other = carried(on, to)
    assert [len(r) for r in begun.partial] == [3, 2] and [len(r) for r in other.partial] == [5]
    cut = to.runner.take_cut()
    assert tokens(cut) == tokens([*begun.partial, *other.partial])
    assert {(r.finish, r.detail) for r in cut} == {
        (FinishReason.ABORTED, "begun afresh after a checkpoint")
    }
    group, _ = to.runner.finish()
    assert [len(r) for r in group.rollouts] == [3, 3]
    assert not {r.id for r in group.rollouts} & {r.id for r in cut}
    assert all(len(r.spans) == 1 for r in group.rollouts)


def test_a_repeat_stays_one_after_a_checkpoint() -> None:
    found: list[Any] = []
    for repeat in (0, 1):
        on, to = ground(Afresh()), ground(Afresh())
        on.runner.start(on.view.job(TRAIN[0]), group_id="g", view=on.shown, repeat=repeat)
        steps(on, 1)
        (begun,) = carried(on, to)
        assert begun.repeat == repeat
        found.append(tokens(to.runner.finish()[0].rollouts))
    assert found[0] != found[1]


def test_groups_are_kept_in_the_order_they_were_begun_and_replace_a_runner_s_own() -> None:
    on, to = ground(), ground()
    for number, length in ((0, 9), (1, 2), (2, 5)):
        start(on, number, length=length)
    start(to, 5)
    steps(to, 2)
    steps(on, 3)
    state = carried(on, to)
    assert [b.group_id for b in state] == ["g0", "g1", "g2"]
    assert [g.id for g in to.runner.finish()] == ["g0", "g1", "g2"] and idle(to)


@dataclass(kw_only=True)
class Asks(InTurn):
    """Opens `more` than its job says, and asks a word on the side at the end."""

    more: int = 0

    async def run(self, session: Session) -> None:
        num = session.job.num_samples + self.more
        await session.gather(*(session.open(i).sample() for i in range(num)))
        await session.aside("1=", role="word").sample()


@over(
    ("generate", "aborted", "made"),
    [
        (InTurn(), 0, 3),  # two of them had not been opened
        (Asks(more=1), 0, 4),  # one more than its job says
        (Asks(), 3, 1),  # none is left, and a group has one at least
    ],
)
def test_as_many_rollouts_are_made_as_were_begun_and_not_aborted(
    generate: Any, aborted: int, made: int
) -> None:
    watchers = [aborts("0", "1", "2")] if aborted else []
    on, to = ground(generate, *watchers), ground(InTurn())
    start(on, num_samples=3)
    steps(on, 3)
    carried(on, to)
    (group,) = to.runner.finish()
    assert len(group.rollouts) == made and len(to.runner.take_cut()) == aborted


def test_what_is_begun_afresh_goes_on_from_nothing() -> None:
    on, to = ground(Afresh()), ground(Afresh())
    start(on, num_samples=1, resume=brought(on, cut_after(1)))
    steps(on, 2)
    carried(on, to)
    (group,) = to.runner.finish()
    assert [len(r.spans) for r in group.rollouts] == [1]


def test_a_group_that_is_taken_up_can_be_cut_before_anything_comes_of_it() -> None:
    on, to = ground(None, Judge(), length=4), ground(None, Judge(), length=4)
    start(on)
    steps(on, 6)
    (begun,) = carried(on, to)
    assert tokens(to.runner.cut()) == tokens(begun.verified) and idle(to)
