"""What is trained on is what was sampled and scored, whatever a part does to it in place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import GfcrError, PartError
from gfcr.testing import factories as make
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


@pytest.mark.parametrize("hook", ["filter", "observe", "store"])
@pytest.mark.parametrize("case", IN_PLACE)
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


@pytest.mark.parametrize("case", SWAPS)
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


@pytest.mark.parametrize("case", BEYOND)
def test_a_part_s_view_shows_what_it_promises_and_takes_nothing(case: str) -> None:
    def look(plan: Any, view: Any) -> Any:
        assert (view.step, view.round, view.groups, view.num_accepted) == (0, 0, (), 0)
        BEYOND[case](view)
        return plan

    part = Every(hook="plan", answer=look)
    with pytest.raises(PartError, match=r"controls\.mine failed: AttributeError"):
        make.pipeline(strategy(controls={"mine": part}), prompts=2).next_batch()
