"""What a run knows by id: the prompts it handed out and the rollouts that may come back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from gfcr.errors import GfcrError, PartError
from gfcr.ledger import Ledger
from gfcr.loop.known import Known, digest
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Prompt, Rollout, Span
from tests.cases import over
from tests.unit.loop.test_handed_over import HELDOUT, Every, strategy


def _write(group: Any) -> Any:
    group.rollouts[0].logprobs_T[0] += 1
    return group


def test_a_part_that_writes_to_a_rollout_is_named() -> None:
    pipeline = make.pipeline(strategy(answer=_write), prompts=2, heldout=HELDOUT)
    with pytest.raises(PartError, match=r"filters\.bad failed: ValueError: .*read-only"):
        pipeline.next_batch()


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


def test_tokens_that_were_not_sampled_make_no_rollout() -> None:
    part = Every(hook="watch", answer=lambda t: t.tokens.append(5))
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


def known(*rollouts: Rollout, heldout: Sequence[Prompt] = ()) -> Known:
    """It has handed out the prompts of the rollouts, which the engine then generated."""
    ledger = Ledger()
    for rollout in rollouts:
        ledger.generated(rollout.spans[0].request_id, num=len(rollout))
    own = Known(ledger=ledger, heldout=heldout)
    own.hand_out([r.prompt for r in rollouts])
    return own


def harvest(*rollouts: Rollout, aborted: Sequence[Rollout] = ()) -> Harvest:
    groups = (make.group_of(rollouts),) if rollouts else ()
    return Harvest(step=3, groups=groups, aborted=tuple(aborted), asides=())


def test_two_prompts_with_one_id_are_refused() -> None:
    prompts = [make.prompt(0), make.prompt(1)]
    own = Known(ledger=Ledger(), heldout=[])
    assert own.hand_out(prompts) == own.hand_out(prompts) == prompts
    with pytest.raises(PartError, match=r"training prompt 'p1' is another one .* one id"):
        own.hand_out([replace(prompts[1], answer="other")])


def test_a_rollout_may_return_while_it_is_held_or_recalled_for_a_batch_in_the_making() -> None:
    old = make.rollout(0)
    own = known(old)
    assert not own.may_return(old)
    own.keep(harvest(old), kept={old.id})
    assert own.may_return(old)
    own.join([old])
    own.keep(harvest(), kept=set())
    assert own.may_return(old), "another batch has recalled it"
    own.keep(harvest(old), kept=set())
    assert not own.may_return(old)


def test_tokens_are_buffered_while_a_part_holds_them_and_aborted_after() -> None:
    rollouts = [
        make.rollout(i, length=2**i, spans=(Span(request_id=f"r{i}", start=0, stop=2**i),))
        for i in range(4)
    ]
    ledger = Ledger()
    own = Known(ledger=ledger, heldout=[])
    for i, rollout in enumerate(rollouts):
        ledger.generated(f"r{i}", num=len(rollout))
    own.keep(harvest(aborted=rollouts[:3]), kept={"g/0", "g/1"})
    assert ledger.bins() == {"in_flight": 8, "buffered": 1 + 2, "aborted": 4}
    restored = Known(ledger=ledger, heldout=[])
    restored.load_state_dict(own.state_dict())
    restored.keep(harvest(aborted=rollouts[3:]), kept={"g/1", "g/3"})
    assert ledger.bins() == {"buffered": 2 + 8, "aborted": 4 + 1}
    assert set(ledger.state_dict()["codes"]) == {"r1", "r3"}, "the others' tokens move no more"
    restored.keep(harvest(), kept=set())
    assert ledger.bins() == {"aborted": 15} and not ledger.state_dict()["codes"]


def test_a_state_is_what_was_known_then_and_all_of_it() -> None:
    rollout = make.rollout()
    first = known(rollout)
    first.keep(harvest(rollout, aborted=[rollout]), kept={rollout.id})
    state = first.state_dict()
    first.keep(harvest(), kept=set())
    first.hand_out([make.prompt(1)])
    later = Known(ledger=Ledger(), heldout=[])
    later.load_state_dict(state)
    assert later.handed_out(rollout.prompt) and not later.handed_out(make.prompt(1))
    assert later.state_dict() == state and later.may_return(rollout)


def test_what_another_run_recorded_is_admitted_under_its_name_and_without_tokens() -> None:
    rollouts = [make.rollout(i, parent="g/0", fork_at=1) for i in range(2)]
    own = known(make.rollout())
    (group,) = own.admit([make.group_of(rollouts)], run="there")
    assert group.id == "there/g" and [r.id for r in group.rollouts] == ["there/g/0", "there/g/1"]
    assert {(r.group_id, r.spans, r.parent) for r in group.rollouts} == {("there/g", (), None)}
    assert all(map(own.may_return, group.rollouts))
    with pytest.raises(PartError, match="training prompt 'p0' is another one"):
        own.admit([make.group_of([make.rollout(of=replace(make.prompt(), answer="4"))])], run="x")


def test_what_another_run_recorded_of_a_held_out_prompt_is_not_admitted() -> None:
    own = Known(ledger=Ledger(), heldout=HELDOUT)
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
    own = Known(ledger=ledger, heldout=[])
    own.keep(harvest(aborted=[rollout]), kept={rollout.id})
    own.lend([rollout], step=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"buffered": 4} and set(ledger.state_dict()["codes"]) == {"r0"}
    own.take_back(step=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"aborted": 4} and not ledger.state_dict()["codes"]
