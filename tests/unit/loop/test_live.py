"""A trajectory in the making, field by field: what is asked for it, and what becomes of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest

from gfcr.engine.base import Delta, Request
from gfcr.ledger import cut_spans
from gfcr.loop.coroutine import Pending
from gfcr.loop.floor import Floor, Origin
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.loop.view import shown
from gfcr.seeds import seed_of
from gfcr.stages import BATCH_FULL, Job, Sampled
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Rollout, Sampling, Span
from tests import cases

EOS = make.CODEC.eos_id
VIEW = shown(make.view())
SAMPLING = Sampling(max_tokens=9, temperature=0.5)
JOB = Job(
    prompt=make.prompt(), num_samples=1, sampling=SAMPLING, step=3, priority=2, draft_budget=1
)


@dataclass
class Ground:
    """An engine and a desk that note what is asked, and answer when told to."""

    requests: list[Request] = field(default_factory=list[Request])
    dropped: list[str] = field(default_factory=list[str])
    judged: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    verdicts: list[Pending[Verdict]] = field(default_factory=list[Pending[Verdict]])
    siblings: list[LiveTrajectory] = field(default_factory=list[LiveTrajectory])
    max_length: int = 1000

    def submit(self, request: Request) -> None:
        self.requests.append(request)

    def abort(self, request_ids: Iterable[str]) -> None:
        self.dropped.extend(request_ids)

    def verify(self, prompt: Prompt, *, text: str) -> Pending[Verdict]:
        self.judged.append((prompt.id, text))
        self.verdicts.append(Pending())
        return self.verdicts[-1]


def opened(ground: Ground, *, repeat: int = 0, group_id: str = "g", **given: Any) -> LiveTrajectory:
    what = cast("Any", ground)
    floor = Floor(engine=what, codec=make.CODEC, desk=what, seed=5)
    origin = Origin(floor=floor, group_id=group_id, job=JOB, view=VIEW, repeat=repeat)
    prompt = given.pop("prompt", JOB.prompt)
    return LiveTrajectory(
        "0", origin=origin, prompt=prompt, sampling=SAMPLING, siblings=ground.siblings, **given
    )


def gains(trajectory: LiveTrajectory, *tokens: int, version: int = 0) -> None:
    """The engine's answer to the trajectory's last request, in one step."""
    name = f"{trajectory.id}#{trajectory.turns - 1}"
    logprobs = tuple(-t / 8 for t in tokens)
    trajectory.extend(Delta(request_id=name, tokens=tokens, logprobs=logprobs), version=version)


def touched(trajectory: LiveTrajectory) -> bool:
    """Whether its group was marked since this was last asked."""
    marks = trajectory._origin.floor.touched
    was = "g" in marks
    marks.clear()
    return was


def over(trajectory: LiveTrajectory, *tokens: int) -> Rollout:
    """Samples those tokens and ends."""
    trajectory.sample()
    gains(trajectory, *tokens, EOS)
    trajectory.close_request(FinishReason.STOP)
    return trajectory.rollout()


# ---------------------------------------------------------------- asking


@cases.over("repeat", [0, 2])
def test_a_request_says_what_it_is_for_and_draws_by_its_place(repeat: int) -> None:
    ground = Ground()
    trajectory = opened(ground, repeat=repeat)
    trajectory.sample(max_tokens=4, stop=[7])
    gains(trajectory, 5, 7)
    trajectory.close_request(FinishReason.STOP)
    trajectory.append((6,))
    trajectory.sample()
    first = Request(
        id="g/0#0",
        tokens=JOB.prompt.tokens,
        sampling=replace(SAMPLING, max_tokens=4),
        stop=(7,),
        seed=seed_of(5, "generate", 3, "p0", "/0", 0, *([repeat] if repeat else [])),
        priority=(3 << 20) + 2,
        draft_budget=1,
        prompt_id="p0",
        slot="/0",
    )
    second = replace(
        first,
        id="g/0#1",
        tokens=(*JOB.prompt.tokens, 5, 7, 6),
        sampling=replace(SAMPLING, max_tokens=6),
        stop=(),
        seed=seed_of(5, "generate", 3, "p0", "/0", 1, *([repeat] if repeat else [])),
    )
    assert ground.requests == [first, second]


def test_it_is_asked_under_the_prompt_it_was_opened_with() -> None:
    ground, hint = Ground(), make.prompt(8, text="9=1+2=")
    trajectory = opened(ground, prompt=hint, train_under=JOB.prompt)
    assert trajectory.prompt is hint
    rollout = over(trajectory, 5)
    assert ground.requests[0].tokens == hint.tokens and ground.requests[0].prompt_id == "p8"
    assert rollout.prompt is JOB.prompt and rollout.sampled_under == hint.tokens
    assert ground.judged == [("p0", make.CODEC.decode([5, EOS]))]
    plain = opened(Ground(), train_under=JOB.prompt).rollout()
    assert plain.prompt is JOB.prompt and plain.sampled_under == ()


@cases.over(("most", "asked"), [(None, 7), (3, 3), (99, 7), (0, 1)])
def test_a_continuation_is_bounded_by_its_call_and_by_the_whole(most: Any, asked: int) -> None:
    ground = Ground()
    trajectory = opened(ground)
    trajectory.append([6, 6])
    trajectory.sample(max_tokens=most)
    assert ground.requests[0].sampling.max_tokens == asked


def test_a_cap_counts_from_now_and_tells_the_engine_what_its_request_may_have() -> None:
    ground = Ground()
    trajectory = opened(ground)
    trajectory.append([6, 6])
    wait = trajectory.sample()
    gains(trajectory, 5)
    gains(trajectory, 5)
    assert trajectory.limit(3) == 2 + 3
    trajectory._origin.floor.traffic.park()
    trajectory._origin.floor.traffic.go_on()
    assert ground.requests[1].sampling.max_tokens == 3 and ground.dropped == ["g/0#0"]
    gains(trajectory, 5, 5)
    assert trajectory.limit(0) == 2
    trajectory._origin.floor.traffic.park()
    trajectory._origin.floor.traffic.go_on()
    assert ground.requests[2].sampling.max_tokens == 1, "an engine samples one at least"
    gains(trajectory, 5)
    trajectory.close_request(FinishReason.LENGTH)
    assert wait.result() == Sampled(tokens=(5,) * 5, stopped=False, ended=False)


def test_one_continuation_at_a_time() -> None:
    trajectory = opened(Ground())
    trajectory.sample()
    with pytest.raises(AssertionError, match="one continuation at a time"):
        trajectory.sample()


def test_the_wait_belongs_to_the_trajectory() -> None:
    trajectory = opened(Ground())
    assert trajectory.sample().owner is trajectory


# ---------------------------------------------------------------- ends and verdicts


@cases.over(
    ("tokens", "finish", "end"),
    [
        ((5, EOS), FinishReason.STOP, FinishReason.STOP),
        ((5, 7), FinishReason.STOP, None),
        ((), FinishReason.STOP, None),
        ((5, EOS), FinishReason.LENGTH, None),
        ((5,), FinishReason.LENGTH, None),
        ((5,) * 9, FinishReason.LENGTH, FinishReason.LENGTH),
        ((5,) * 10, FinishReason.LENGTH, FinishReason.LENGTH),
        ((5,) * 9, FinishReason.STOP, None),
    ],
)
def test_a_continuation_ends_the_trajectory_at_its_own_end_or_the_cap(
    tokens: Sequence[int], finish: FinishReason, end: FinishReason | None
) -> None:
    trajectory = opened(Ground())
    wait = trajectory.sample()
    gains(trajectory, *tokens)
    touched(trajectory)
    trajectory.close_request(finish)
    stopped = finish == FinishReason.STOP
    assert wait.result() == Sampled(tokens=tuple(tokens), stopped=stopped, ended=end is not None)
    assert trajectory.finish == end and touched(trajectory)
    assert len(trajectory.spans) == bool(tokens), "nothing gained is nothing taken down"


def test_an_end_is_verified_once_with_the_text_that_is_recorded() -> None:
    ground = Ground()
    trajectory = opened(ground)
    over(trajectory, 5, 6)
    text = make.CODEC.decode([5, 6, EOS])
    assert ground.judged == [("p0", text)] and not trajectory.is_verified
    touched(trajectory)
    ground.verdicts[0].resolve(Verdict(reward=0.5))
    assert trajectory.is_verified and touched(trajectory)
    rollout = trajectory.rollout()
    assert (rollout.text, rollout.reward, rollout.error) == (text, 0.5, None)


def test_what_is_asked_on_the_side_is_not_verified() -> None:
    ground = Ground()
    rollout = over(opened(ground, role="judge"), 5)
    assert not ground.judged and rollout.role == "judge" and rollout.reward is None


def test_what_control_ends_is_withdrawn_and_a_rollout_only_where_it_halts() -> None:
    for finish in (FinishReason.HALTED, FinishReason.ABORTED):
        ground = Ground()
        trajectory = opened(ground)
        wait = trajectory.sample()
        gains(trajectory, 5)
        touched(trajectory)
        trajectory.halt("a loop", finish=finish)
        assert ground.dropped == ["g/0#0"] and touched(trajectory)
        assert wait.result() == Sampled(tokens=(5,), stopped=False, ended=True)
        assert (trajectory.finish, trajectory.rollout().detail) == (finish, "a loop")
        aborted = finish == FinishReason.ABORTED
        assert trajectory.is_verified == aborted and len(ground.judged) == (not aborted)


def test_a_continuation_that_nobody_awaits_is_dropped_once() -> None:
    ground = Ground()
    trajectory = opened(ground)
    trajectory.withdraw()
    trajectory.sample()
    trajectory.withdraw()
    trajectory.withdraw()
    assert ground.dropped == ["g/0#0"]
    trajectory.sample()
    assert len(ground.requests) == 2, "another may be asked for"


def test_a_failure_is_never_worth_anything() -> None:
    ground = Ground()
    trajectory = opened(ground)
    over(trajectory, 5)
    ground.verdicts[0].resolve(Verdict(reward=1.0))
    trajectory.fail("ValueError: tool broke")
    rollout = trajectory.rollout()
    assert trajectory.is_verified and rollout.finish == FinishReason.ERROR
    assert (rollout.reward, rollout.error) == (None, "ValueError: tool broke")


@cases.over("stopped", [False, True])
def test_an_open_end_is_sealed_and_an_ended_one_stays(stopped: bool) -> None:
    trajectory = opened(Ground())
    trajectory.sample(max_tokens=2)
    gains(trajectory, 5, 7)
    trajectory.close_request(FinishReason.STOP if stopped else FinishReason.LENGTH)
    trajectory.seal()
    assert trajectory.finish == (FinishReason.STOP if stopped else FinishReason.LENGTH)
    halted = opened(Ground())
    halted.sample()
    halted.halt("enough", finish=FinishReason.HALTED)
    halted.seal()
    assert (halted.finish, halted.detail) == (FinishReason.HALTED, "enough")


def test_text_to_append_that_does_not_fit_ends_it_and_says_so() -> None:
    trajectory = opened(Ground())
    trajectory.append([6] * 9)
    assert trajectory.finish is None and len(trajectory.tokens) == 9
    trajectory.append([6])
    assert trajectory.finish == FinishReason.LENGTH and len(trajectory.tokens) == 9
    assert trajectory.detail == "1 tokens to append did not fit"
    ended = opened(Ground())
    over(ended, 5)
    ended.append([6] * 99)
    assert ended.finish == FinishReason.STOP and ended.detail == ""


# ---------------------------------------------------------------- what it is frozen as


def test_every_field_of_a_rollout_is_its_trajectory_s() -> None:
    ground = Ground()
    trunk = opened(ground)
    trunk.sample(max_tokens=2)
    gains(trunk, 5, 6, version=1)
    trunk.close_request(FinishReason.LENGTH)
    trunk.append([9])
    branch = trunk.fork(3)
    assert branch is ground.siblings[1] and branch.name == "0.0" and trunk.fork(0).name == "0.1"
    branch.sample()
    gains(branch, 7, version=2)
    branch.notes.update(tries=2, odd=cast("Any", "x"), rate=np.float32(0.5))
    rollout = branch.rollout()
    arrays = {
        "tokens_T": np.array([5, 6, 9, 7], np.int32),
        "logprobs_T": np.array([-0.625, -0.75, 0, -0.875], np.float32),
        "versions_T": np.array([1, 1, -1, 2], np.int32),
        "mask_T": np.array([True, True, False, True]),
    }
    for name, right in arrays.items():
        own = getattr(rollout, name)
        assert own.dtype == right.dtype and own.tolist() == right.tolist()
    assert rollout == replace(
        rollout,
        id="g/0.0",
        group_id="g",
        prompt=JOB.prompt,
        sampled_under=(),
        spans=(
            Span(request_id="g/0#0", start=0, stop=2),
            Span(request_id="g/0.0#0", start=0, stop=1),
        ),
        text=make.CODEC.decode([5, 6, 9, 7]),
        finish=FinishReason.ABORTED,
        detail=BATCH_FULL,
        step=3,
        parent="g/0",
        fork_at=3,
        role="",
        origin="fresh",
        reward=None,
        error=None,
        notes={"tries": 2.0, "rate": 0.5},
    )
    assert {type(v) for v in rollout.notes.values()} == {float}
    first = trunk.rollout()
    assert (first.parent, first.fork_at, first.notes) == (None, 0, {})


def test_a_fork_is_of_its_trunk_s_prompts_and_role() -> None:
    hint = make.prompt(8, text="9=1+2=")
    trunk = opened(Ground(), prompt=hint, train_under=JOB.prompt, role="judge")
    twig = trunk.fork(0)
    assert (twig.prompt, twig.role, twig.sampling) == (hint, "judge", SAMPLING)
    assert twig.rollout().prompt is JOB.prompt
    for wrong in (-1, 1):
        with pytest.raises(AssertionError, match=rf"fork at {wrong} of 0 tokens"):
            trunk.fork(wrong)


def test_a_complete_rollout_is_taken_as_it_is_with_its_verdict() -> None:
    hint = make.prompt(8, text="9=1+2=")
    for changes, judged in (
        ({"reward": 0.0}, 0),
        ({"reward": None, "error": "ValueError: x"}, 0),
        ({"reward": None}, 1),
    ):
        given: dict[str, Any] = {"detail": "x", "sampled_under": hint.tokens, **changes}
        old = make.rollout(**given, notes={"tries": 2.0}, finish=FinishReason.LENGTH)
        ground = Ground()
        trajectory = opened(ground)
        trajectory.resume(old)
        assert len(ground.judged) == judged and trajectory.is_verified == (not judged)
        new = trajectory.rollout()
        assert (new.reward, new.error, new.finish) == (old.reward, old.error, old.finish)
        assert (new.detail, new.sampled_under) == ("x", hint.tokens)
        assert new.spans == old.spans and new.notes == old.notes
        assert trajectory.notes is not old.notes and trajectory.problem() is None
        for name in ("tokens_T", "logprobs_T", "versions_T", "mask_T"):
            assert getattr(new, name).tolist() == getattr(old, name).tolist()


def test_a_partial_rollout_goes_on_and_is_judged_at_its_end() -> None:
    ground = Ground()
    trajectory = opened(ground, group_id="h")
    trajectory.resume(make.rollout(finish=FinishReason.ABORTED, reward=None))
    assert trajectory.finish is None and not ground.judged and not trajectory.is_verified
    over(trajectory, 5)
    assert len(ground.judged) == 1 and len(trajectory.tokens) == 6
    under = opened(Ground(), prompt=make.prompt(8, text="9="), train_under=JOB.prompt)
    under.resume(make.rollout(finish=FinishReason.ABORTED, sampled_under=(1, 2)))
    assert under.rollout().sampled_under == make.CODEC.prompt("9="), "what it goes on under"


# ---------------------------------------------------------------- what is no rollout


def test_what_was_not_sampled_or_was_changed_is_no_rollout() -> None:
    fine, empty, cut = opened(Ground()), opened(Ground()), opened(Ground())
    over(fine, 5)
    fine.notes["x"] = float("nan")
    assert fine.problem() is None
    fine.notes["y"] = cast("Any", "high")
    assert fine.problem() == "its notes are no numbers: {'y': 'high'}"
    empty.append([6])
    assert empty.problem() == "no token was sampled for it"
    cut.append([6] * 10)
    said = "no token was sampled for it (10 tokens to append did not fit)"
    assert cut.problem() == said


@cases.over("name", ["tokens", "logprobs", "versions", "mask"])
def test_columns_that_were_changed_by_hand_are_dropped(name: str) -> None:
    trajectory = opened(Ground())
    over(trajectory, 5, 6)
    getattr(trajectory, name).pop()
    said = "its tokens were changed by hand: use `sample`, `append` and `fork` only"
    assert trajectory.problem() == said
    rollout = trajectory.rollout()
    assert len(rollout) == len(rollout.mask_T) == 0 and rollout.text == ""
    assert len(rollout.logprobs_T) == len(rollout.versions_T) == 0


def test_the_spans_that_are_shown_are_a_copy() -> None:
    trajectory = opened(Ground())
    over(trajectory, 5, 6)
    first, _ = trajectory.spans, trajectory.spans.clear()
    assert trajectory.spans == first == list(trajectory.rollout().spans) and first
    assert trajectory.problem() is None


def test_spans_are_cut_where_the_tokens_are() -> None:
    spans = [Span(request_id="a", start=2, stop=4), Span(request_id="b", start=0, stop=3)]
    assert cut_spans(spans, num=3) == [spans[0], Span(request_id="b", start=0, stop=1)]
    assert cut_spans(spans, num=2) == spans[:1] and cut_spans(spans, num=0) == []
    assert cut_spans(spans, num=9) == spans


def test_siblings_are_all_that_were_opened_and_say_how_they_ended() -> None:
    ground = Ground()
    first = opened(ground)
    first.sample()
    first.extend(Delta(request_id="g/0#0", tokens=(5,), logprobs=(-1.0,)), version=0)
    child = first.fork(at=1)
    first.halt("enough", finish=FinishReason.HALTED)
    assert first.siblings == child.siblings == (first, child)
    assert [t.finish for t in first.siblings] == [FinishReason.HALTED, None]
