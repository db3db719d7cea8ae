"""What is trained on is what was sampled and scored, whatever a part does to it in place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from gfcr.errors import GfcrError, PartError
from gfcr.ledger import Ledger
from gfcr.loop.custody import Custody, digest
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Rollout, Span
from tests.cases import over
from tests.unit.loop.test_guard import HELDOUT, Every, strategy

SET = object.__setattr__


def _write(array: Any) -> None:
    array.setflags(write=True)
    array[0] += 1


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "its prompt": lambda r: SET(r, "prompt", HELDOUT[0]),
    "its prompt's tokens": lambda r: SET(r, "prompt", replace(r.prompt, tokens=HELDOUT[0].tokens)),
    "its tokens": lambda r: SET(r, "tokens_T", r.tokens_T + 1),
    "a token": lambda r: _write(r.tokens_T),
    "a log-prob": lambda r: _write(r.logprobs_T),
    "a version": lambda r: _write(r.versions_T),
    "its mask": lambda r: SET(r, "mask_T", ~r.mask_T),
    "its reward": lambda r: SET(r, "reward", 1.5),
    "its spans": lambda r: SET(r, "spans", ()),
    "its origin": lambda r: SET(r, "origin", "replay"),
    "its text": lambda r: SET(r, "text", "9"),
    "fewer tokens": lambda r: [
        SET(r, name, getattr(r, name)[:1]) for name in ("tokens_T", "logprobs_T", "versions_T")
    ],
    "no array": lambda r: SET(r, "tokens_T", r.tokens_T.tolist()),
    "numbers of another type": lambda r: SET(r, "logprobs_T", r.logprobs_T.view(np.int32)),
}
"""How a rollout is changed that cannot be assigned to."""


def changing(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(group: Any) -> Any:
        how(group.rollouts[0])
        return group

    return change


@pytest.mark.slow
@over("hook", ["filter", "observe", "store"])
@over("case", IN_PLACE)
def test_a_rollout_changed_in_place_is_not_trained_on(case: str, hook: str) -> None:
    """By a Filter; by memories, which see it last, and by what only looks."""
    how = IN_PLACE[case]
    part = Every(hook=hook, answer=lambda harvest: how(harvest.groups[-1].rollouts[0]))
    parts: dict[str, dict[str, Any]] = {
        "filter": {"answer": changing(how)},
        "observe": {"controls": {"mine": part}},
        "store": {"replays": {"mine": part}},
    }
    batches: list[Any] = []
    changed = strategy(**parts[hook])
    pipeline = make.pipeline(changed, prompts=2, heldout=HELDOUT, sink=batches.append)
    with pytest.raises(PartError, match=r"update 0: rollout 0:\S+ is not what the engine"):
        pipeline.next_batch()
    assert not any(batch.samples for batch in batches)


def test_a_prompt_changed_in_place_is_not_asked_again() -> None:
    def ease(group: Any) -> Any:
        group.prompt.meta["rate"] = 1.0
        return group

    pipeline = make.pipeline(strategy(answer=ease), task=make.CoinTask(num_train=2), prompts=2)
    pipeline.next_batch()
    with pytest.raises(PartError, match=r"training prompt 'c\d' is another one than it was"):
        pipeline.next_batch()


def test_a_resumed_run_knows_what_it_handed_out_and_what_it_holds() -> None:
    """A prompt of an earlier session may be planned again, and what was held recalled."""
    kept: list[Any] = []

    def memory() -> dict[str, Any]:
        part = Every(hook="store", answer=lambda harvest: kept.extend(harvest.groups))
        part.holds = lambda: [r.id for g in kept for r in g.rollouts]
        return {"replays": {"mine": part}}

    first = make.pipeline(strategy(**memory()), prompts=2)
    first.next_batch()
    state = first.state_dict()
    prompt, rollout = kept[0].prompt, kept[0].rollouts[0]
    plans = Every(hook="plan", answer=lambda plan, view: plan.add([view.job(prompt)]))
    brings = Every(hook="recall", answer=lambda g: [rollout] if g.prompt.id == prompt.id else [])
    plan = strategy(controls={"plans": plans, "brings": brings})
    later = make.pipeline(plan, prompts=1)
    later.load_state_dict({**state, "parts": later.state_dict()["parts"]})
    (group,) = later.next_batch().groups
    assert [r.id for r in group.rollouts if r.origin == "replay"] == [rollout.id]
    unknowing = make.pipeline(plan, prompts=1)
    with pytest.raises(PartError, match=r"controls\.plans: .*none that `view\.draw` gave"):
        unknowing.next_batch()


SWAPS: dict[str, Callable[[Any], Any]] = {
    "a token": lambda t: t.tokens.__setitem__(0, 5 if t.tokens[0] != 5 else 6),
    "a log-prob": lambda t: t.logprobs.__setitem__(0, -9.0),
    "all tokens": lambda t: setattr(t, "tokens", [3] * len(t.tokens)),
}


@over("case", SWAPS)
def test_tokens_that_were_not_sampled_make_no_rollout(case: str) -> None:
    part = Every(hook="watch", answer=SWAPS[case])
    pipeline = make.pipeline(strategy(controls={"mine": part}), prompts=2, max_tokens=24)
    with pytest.raises(GfcrError, match="its tokens were changed by hand"):
        pipeline.next_batch()


def test_a_trajectory_is_judged_as_its_own_prompt_s() -> None:
    part = Every(hook="watch", answer=lambda t: setattr(t, "prompt", HELDOUT[0]))
    with pytest.raises(PartError, match=r"controls\.mine failed: AttributeError"):
        make.pipeline(strategy(controls={"mine": part}), prompts=2).next_batch()


BEYOND: dict[str, Callable[[Any], Any]] = {
    "its engine": lambda view: view.engine.step(),
    "its stream": lambda view: view.stream.draw(1),
    "its codec": lambda view: view.codec,
    "its counter": lambda view: view.in_flight,
    "its notes": lambda view: view.note,
    "a group added": lambda view: view.groups.append(make.group([1.0, 0.0])),
    "a batch that is full": lambda view: setattr(view, "accepted", 99),
    "another step": lambda view: setattr(view, "step", 0),
    "a method replaced": lambda view: setattr(view, "draw", lambda num: [HELDOUT[0]] * num),
}
"""What a part does with its view that no part may."""


@over("case", BEYOND)
def test_a_part_s_view_shows_what_it_promises_and_takes_nothing(case: str) -> None:
    def look(plan: Any, view: Any) -> Any:
        assert (view.step, view.round, view.groups, view.num_accepted) == (0, 0, (), 0)
        BEYOND[case](view)
        return plan

    part = Every(hook="plan", answer=look)
    with pytest.raises(PartError, match=r"controls\.mine failed: AttributeError"):
        make.pipeline(strategy(controls={"mine": part}), prompts=2).next_batch()


# ---------------------------------------------------------------- custody by itself

OTHERS: dict[str, Any] = {
    "id": "g/9",
    "group_id": "h",
    "prompt": replace(make.prompt(), tokens=(1, 2)),
    "tokens_T": np.full(4, 9, np.int32),
    "logprobs_T": np.full(4, -0.25, np.float32),
    "versions_T": np.ones(4, np.int32),
    "mask_T": np.zeros(4, np.bool_),
    "spans": (Span(request_id="g/0#0", start=1, stop=5),),
    "text": "y",
    "finish": FinishReason.LENGTH,
    "step": 1,
    "reward": 0.5,
}
"""Another value for each thing that training takes from a rollout."""


def custody(*rollouts: Rollout, heldout: Sequence[Prompt] = ()) -> Custody:
    """One that has handed out the prompts of the rollouts and taken these down."""
    ledger = Ledger()
    for rollout in rollouts:
        ledger.generated(rollout.spans[0].request_id, num=len(rollout))
    own = Custody(ledger=ledger, heldout=heldout)
    own.hand_out([r.prompt for r in rollouts])
    own.take(rollouts)
    return own


def harvest(*rollouts: Rollout, aborted: Sequence[Rollout] = ()) -> Harvest:
    groups = (make.group_of(rollouts),) if rollouts else ()
    return Harvest(step=3, groups=groups, aborted=tuple(aborted), asides=())


@over("name", OTHERS)
def test_a_rollout_is_vouched_for_as_it_was_made_alone(name: str) -> None:
    rollout = make.rollout()
    own = custody(rollout)
    own.check(harvest(rollout))
    assert own.made(rollout) and own.made(replace(rollout, origin="replay"))
    other = replace(rollout, **{name: OTHERS[name]})
    assert not own.made(other)
    with pytest.raises(PartError, match=r"update 3: rollout \S+ is not what the engine sampled"):
        own.check(harvest(other))
    with pytest.raises(PartError, match=r"update 3: rollout \S+ is not what the engine sampled"):
        own.check(harvest(aborted=[other]))


def test_each_prompt_of_what_was_made_is_compared() -> None:
    prompts = [make.prompt(0), make.prompt(1)]
    rollouts = [make.rollout(i, of=p) for i, p in enumerate(prompts)]
    own = Custody(ledger=Ledger(), heldout=[])
    assert own.hand_out(prompts) == prompts
    own.take(rollouts)
    for wrong in (0, 1):
        changed = replace(prompts[wrong], answer="other")
        rollouts[wrong] = replace(rollouts[wrong], prompt=changed)
        assert not own.handed_out(changed)
        with pytest.raises(PartError, match=f"training prompt 'p{wrong}' is another one"):
            own.take(rollouts)
        rollouts[wrong] = replace(rollouts[wrong], prompt=prompts[wrong])


def test_a_replay_must_be_recalled_and_what_is_fresh_of_this_batch() -> None:
    old, new = make.rollout(0), make.rollout(1)
    own = custody(old)
    own.keep(harvest(old), kept={old.id})
    own.forget(harvest(old))
    own.take([new])
    recalled = replace(old, origin="replay")
    for wrong in (old, recalled):
        with pytest.raises(PartError, match="rollout g/0 is not"):
            own.check(harvest(new, wrong))
    own.join([recalled])
    own.check(harvest(new, recalled))
    own.forget(harvest(new, recalled))
    with pytest.raises(PartError, match="rollout g/0 is not"):
        own.check(harvest(recalled))
    assert own.made(old) and not own.made(new), "only what a Replay part holds is remembered"


def test_a_group_with_a_held_out_prompt_is_not_trained_on() -> None:
    rollout = make.rollout(of=HELDOUT[0])
    with pytest.raises(PartError, match="update 3: group g is of a held-out prompt: nothing"):
        custody(rollout, heldout=HELDOUT).check(harvest(rollout))


def test_tokens_are_buffered_while_a_part_holds_them_and_aborted_after() -> None:
    rollouts = [
        make.rollout(i, length=2**i, spans=(Span(request_id=f"r{i}", start=0, stop=2**i),))
        for i in range(4)
    ]
    ledger = Ledger()
    own = Custody(ledger=ledger, heldout=[])
    for i, rollout in enumerate(rollouts):
        ledger.generated(f"r{i}", num=len(rollout))
    own.keep(harvest(aborted=rollouts[:3]), kept={"g/0", "g/1"})
    assert ledger.bins() == {"in_flight": 8, "buffered": 1 + 2, "aborted": 4}
    restored = Custody(ledger=ledger, heldout=[])
    restored.load_state_dict(own.state_dict())
    restored.keep(harvest(aborted=rollouts[3:]), kept={"g/1", "g/3"})
    assert ledger.bins() == {"buffered": 2 + 8, "aborted": 4 + 1}
    assert set(ledger.state_dict()["codes"]) == {"r1", "r3"}, "the others' tokens move no more"
    restored.keep(harvest(), kept=set())
    assert ledger.bins() == {"aborted": 15} and not ledger.state_dict()["codes"]


def test_a_state_is_what_was_known_then_and_all_of_it() -> None:
    rollout = make.rollout()
    first = custody(rollout)
    first.keep(harvest(rollout, aborted=[rollout]), kept={rollout.id})
    state = first.state_dict()
    first.keep(harvest(), kept=set())
    first.hand_out([make.prompt(1)])
    first.forget(harvest(rollout))
    later = Custody(ledger=Ledger(), heldout=[])
    later.load_state_dict(state)
    assert later.handed_out(rollout.prompt) and not later.handed_out(make.prompt(1))
    assert later.state_dict() == state and set(state["held"]) == set(state["made"]) == {rollout.id}
    later.forget(harvest(rollout))
    assert later.made(rollout)


def test_what_another_run_recorded_is_admitted_under_its_name_and_without_tokens() -> None:
    rollouts = [make.rollout(i, parent="g/0", fork_at=1) for i in range(2)]
    own = custody(make.rollout())
    own.keep(harvest(make.rollout()), kept={"g/0"})
    (group,) = own.admit([make.group_of(rollouts)], run="there")
    assert group.id == "there/g" and [r.id for r in group.rollouts] == ["there/g/0", "there/g/1"]
    assert {(r.group_id, r.spans, r.parent) for r in group.rollouts} == {("there/g", (), None)}
    assert own.made(make.rollout()), "what is this run's is known as before"
    own.forget(harvest(make.rollout()))
    assert own.made(make.rollout()) and all(map(own.made, group.rollouts))
    with pytest.raises(PartError, match="training prompt 'p0' is another one"):
        own.admit([make.group_of([make.rollout(of=replace(make.prompt(), answer="4"))])], run="x")


def test_what_another_run_recorded_of_a_held_out_prompt_is_not_admitted() -> None:
    own = Custody(ledger=Ledger(), heldout=HELDOUT)
    recorded = make.group_of([make.rollout(of=HELDOUT[1])])
    with pytest.raises(PartError, match="there: prompt 'c1001' is held out in this run"):
        own.admit([recorded], run="there")


def test_a_split_has_the_same_digest_wherever_it_is_taken() -> None:
    """It is written into cells and certificates: it must not move by itself."""

    class Opaque:
        def __str__(self) -> str:
            return f"<Opaque at {hex(id(self))}>"

    one = Prompt(id="a", tokens=(1, 2), text="", answer="7", meta={"b": Opaque(), "a": 0.5})
    text = b'[16,"a","7",{"a":0.5,"b":"<Opaque>"}]\n'
    tokens = b"\1" + bytes(7) + b"\2" + bytes(7)
    assert digest([one]) == sha256(text + tokens).hexdigest()
    other = replace(one, id="b")
    assert digest([one, other]) != digest([other, one]) != digest([one])


def test_what_a_batch_goes_on_from_stays_buffered_though_another_one_ends_first() -> None:
    rollout = make.rollout(spans=(Span(request_id="r0", start=0, stop=4),), length=4)
    ledger = Ledger()
    ledger.generated("r0", num=4)
    own = Custody(ledger=ledger, heldout=[])
    own.keep(harvest(aborted=[rollout]), kept={rollout.id})
    own.lend([rollout], step=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"buffered": 4} and set(ledger.state_dict()["codes"]) == {"r0"}
    own.take_back(step=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"aborted": 4} and not ledger.state_dict()["codes"]
