"""What a run knows by id: the prompts it handed out and the rollouts that may come back."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from gfcr.errors import PartError
from gfcr.ledger import Ledger, rejected
from gfcr.loop.batch import settle_masked
from gfcr.loop.known import Known, digest
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Prompt, Rollout, Sample, Span
from tests.fields import fields_of
from tests.loops import HELDOUT, Maps, Plans, Told, run


def test_a_resumed_run_knows_what_it_handed_out_and_what_it_holds() -> None:
    """A prompt of an earlier session may be planned again, and what was held recalled."""
    kept: list[Any] = []

    part = Told(hook="store", answer=lambda harvest: kept.extend(harvest.groups))
    part.holds = lambda: [r.id for g in kept for r in g.rollouts]
    first = run(part)
    first.next_batch()
    state = first.state_dict()
    prompt, rollout = kept[0].prompt, kept[0].rollouts[0]
    plans = Plans(answer=lambda plan, view: plan.add([view.job(prompt)]))
    brings = Told(hook="recall", answer=lambda g: [rollout] if g.prompt.id == prompt.id else [])
    controls = {"plans": plans, "brings": brings}
    later = run(controls=controls, prompts=1)
    later.load_state_dict({**state, "parts": later.state_dict()["parts"]})
    (group,) = later.next_batch().groups
    assert [r.id for r in group.rollouts if r.origin == "replay"] == [rollout.id]
    with pytest.raises(PartError, match=r"controls\.plans: .*none that `view\.draw` gave"):
        run(controls=controls, prompts=1).next_batch()


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


def test_a_part_that_writes_to_a_rollout_is_named() -> None:
    def write(group: Any) -> Any:
        group.rollouts[0].logprobs_T[0] += 1
        return group

    with pytest.raises(PartError, match=r"filters\.mine failed: ValueError: .*read-only"):
        run(filters={"mine": Maps(answer=write)}).next_batch()


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
    own.lend([old], batch=5)
    own.keep(harvest(), kept=set())
    assert own.may_return(old), "another batch has recalled it"
    own.take_back(batch=5)
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


def test_what_a_later_batch_replayed_is_not_masked_for_the_one_that_is_learned_from_first() -> None:
    """Batches may be made ahead of the trainer, and with it of what a correction says of them."""
    rollout = make.rollout()
    ledger = Ledger()
    ledger.generated(rollout.spans[0].request_id, num=len(rollout))
    own = Known(ledger=ledger, heldout=[])
    own.learning[0] = [Sample(rollout=rollout, advantage_T=rollout.logprobs_T)]
    for bin in ("trained", "replayed"):
        ledger.settle(rollout.spans, bin=bin)
    own.keep(harvest(), kept=set())
    settle_masked(ledger, samples=own.learning[0], kept={})
    assert ledger.bins() == {"replayed": len(rollout)}


def test_prompts_of_before_and_after_an_exchange_of_the_data_are_both_known() -> None:
    old, new, other = (make.prompt(1, answer=answer) for answer in "123")
    first = known(make.rollout(of=old))
    first.exchanged()
    later = Known(ledger=Ledger(), heldout=[])
    later.load_state_dict(first.state_dict())
    later.hand_out([new, old, new])
    assert later.handed_out(old) and later.handed_out(new) and not later.handed_out(other)
    with pytest.raises(PartError, match="two prompts of the task have one id"):
        later.hand_out([other])


def test_what_another_run_recorded_is_admitted_under_its_name_and_without_tokens() -> None:
    rollouts = [make.rollout(i, parent="g/0", fork_at=1) for i in range(2)]
    own = known(make.rollout())
    (group,) = own.admit([make.group_of(rollouts)], run="there")
    assert group.id == "there/g" and [r.id for r in group.rollouts] == ["there/g/0", "there/g/1"]
    assert {(r.group_id, r.spans, r.parent) for r in group.rollouts} == {("there/g", (), None)}
    assert all(map(own.may_return, group.rollouts))
    assert all((r.versions_T < -(10**9)).all() for r in group.rollouts), "no lag reaches back to it"
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
    own.lend([rollout], batch=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"buffered": 4} and set(ledger.state_dict()["codes"]) == {"r0"}
    own.take_back(batch=5)
    own.keep(harvest(), kept=set())
    assert ledger.bins() == {"aborted": 4} and not ledger.state_dict()["codes"]


def test_what_was_turned_down_is_buffered_while_it_is_held_and_rejected_after() -> None:
    """Leaf 0 shares a trunk with leaf 1, which is dropped first: what it holds of it is held."""
    trunk = Span(request_id="trunk", start=0, stop=2)
    leaves = [
        make.rollout(i, length=3, spans=(trunk, Span(request_id=f"r{i}", start=0, stop=1)))
        for i in range(3)
    ]
    ledger = Ledger()
    for request, num in (("trunk", 2), ("r0", 1), ("r1", 1), ("r2", 1)):
        ledger.generated(request, num=num)
    for leaf in leaves:
        ledger.settle(leaf.spans, bin=rejected("late"))
    own = Known(ledger=ledger, heldout=[])
    own.keep(
        Harvest(step=3, groups=(make.group_of(leaves).reject("late"),), aborted=()),
        kept={"g/0", "g/1"},
    )
    assert ledger.bins() == {"buffered": 2 + 2, "rejected:late": 1}
    restored = Known(ledger=ledger, heldout=[])
    restored.load_state_dict(own.state_dict())
    restored.keep(harvest(), kept={"g/0"})
    assert ledger.bins() == {"buffered": 2 + 1, "rejected:late": 2}
    (again,) = restored.lend(leaves[:1], batch=5)
    assert fields_of(again) == fields_of(replace(leaves[0], origin="replay"))
    restored.keep(harvest(), kept=set())
    assert ledger.bins() == {"buffered": 3, "rejected:late": 2}, "a batch goes on from it"
    restored.take_back(batch=5)
    ledger.settle(again.spans, bin="replayed")
    restored.keep(harvest(again), kept=set())
    assert ledger.bins() == {"replayed": 3, "rejected:late": 2}


def test_what_was_cut_goes_on_and_what_was_whole_is_replayed() -> None:
    whole, cut = make.rollout(0), make.rollout(1)
    own = known(whole, cut)
    own.keep(harvest(whole, aborted=[cut]), kept={whole.id, cut.id})
    lent = own.lend([whole, cut], batch=4)
    assert [r.origin for r in lent] == ["replay", "fresh"]
