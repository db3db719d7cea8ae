"""Trajectories in the making: what is asked for them, how they end, what they are frozen as."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest

from gfcr.engine.base import Delta, Request
from gfcr.errors import PartError
from gfcr.loop.coroutine import Pending
from gfcr.loop.floor import Floor, Origin
from gfcr.loop.scoring import Desk
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.loop.view import shown
from gfcr.seeds import seed_of
from gfcr.stages import BATCH_FULL, Job, Sampled
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Rollout, Sampling, Span
from tests.cases import over
from tests.fields import fields_of

EOS = make.CODEC.eos_id
VIEW = shown(make.view(step=3))
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
    task = make.CoinTask()
    notes_of = Desk.notes_of

    def submit(self, request: Request) -> None:
        self.requests.append(request)

    def abort(self, request_ids: Iterable[str]) -> None:
        self.dropped.extend(request_ids)

    def verify(self, prompt: Prompt, *, text: str, **_: Any) -> Pending[Verdict]:
        self.judged.append((prompt.id, text))
        self.verdicts.append(Pending())
        return self.verdicts[-1]

    def checked(self, verdict: Verdict, *, prompt: Prompt) -> Verdict:
        return verdict


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
    trajectory.extend(Delta(request_id=name, tokens=tokens, logprobs=logprobs, version=version))


def touched(trajectory: LiveTrajectory) -> bool:
    """Whether its group was marked since this was last asked."""
    marks = trajectory._origin.floor.touched
    was = "g" in marks
    marks.clear()
    return was


def sampled(
    trajectory: LiveTrajectory,
    *tokens: int,
    finish: FinishReason = FinishReason.STOP,
    version: int = 0,
    **asked: Any,
) -> Sampled:
    """One `sample` call that the engine answers with these tokens, the last of them a stop."""
    wait = trajectory.sample(**{"stop": tokens[-1:], **asked})
    gains(trajectory, *tokens, version=version)
    trajectory.close_request(finish)
    return wait.result()


def finished(trajectory: LiveTrajectory, *tokens: int) -> Rollout:
    """Samples those tokens and ends."""
    sampled(trajectory, *tokens, EOS)
    return trajectory.rollout()


# ---------------------------------------------------------------- asking


@over("repeat", [0, 2])
def test_a_request_says_what_it_is_for_and_draws_by_its_place(repeat: int) -> None:
    ground = Ground()
    trajectory = opened(ground, repeat=repeat)
    sampled(trajectory, 5, 7, max_tokens=4, stop=[7])
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
    rollout = finished(trajectory, 5)
    assert ground.requests[0].tokens == hint.tokens and ground.requests[0].prompt_id == "p8"
    assert rollout.prompt is JOB.prompt and rollout.sampled_under == hint.tokens
    assert ground.judged == [("p0", make.CODEC.decode([5, EOS]))]
    plain = opened(Ground(), train_under=JOB.prompt).rollout()
    assert plain.prompt is JOB.prompt and plain.sampled_under == ()
    other = Ground()
    own = finished(opened(other, prompt=hint), 5)
    assert own.prompt is hint and own.sampled_under == ()
    assert other.judged[0][0] == "p0", "an answer to the job's prompt all the same"


@over(("most", "asked"), [(None, 7), (3, 3), (99, 7), (0, 1)])
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


def test_what_was_parked_goes_on_behind_what_it_had_gained() -> None:
    ground = Ground()
    trajectory = opened(ground)
    traffic, wait = trajectory._origin.floor.traffic, trajectory.sample(max_tokens=6, stop=(8,))
    gains(trajectory, 5, 6)
    traffic.park()
    assert len(traffic) == 1 and len(ground.requests) == 1
    traffic.go_on()
    asked = [(r.id, r.begun, r.sampling.max_tokens, r.stop) for r in ground.requests]
    assert asked == [("g/0#0", 0, 6, (8,)), ("g/0#1", 2, 4, (8,))]
    gains(trajectory, 7, 8, version=1)
    trajectory.close_request(FinishReason.STOP)
    assert wait.result() == Sampled(tokens=(5, 6, 7, 8), stopped=True, ended=False)
    rollout = trajectory.rollout()
    assert rollout.versions_T.tolist() == [0, 0, 1, 1]
    assert [s.request_id for s in rollout.spans] == ["g/0#0", "g/0#1"]


def test_one_continuation_at_a_time() -> None:
    trajectory = opened(Ground())
    assert trajectory.sample().owner is trajectory
    with pytest.raises(AssertionError, match="one continuation at a time"):
        trajectory.sample()


# ---------------------------------------------------------------- ends and verdicts


@over(
    ("tokens", "finish", "end"),
    [
        ((5, EOS), FinishReason.STOP, FinishReason.STOP),
        ((5, 7), FinishReason.STOP, None),
        ((5, 6), FinishReason.STOP, FinishReason.STOP),  # another end of sequence of the model's
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
    wait = trajectory.sample(stop=(5, 7))
    gains(trajectory, *tokens)
    touched(trajectory)
    trajectory.close_request(finish)
    stopped = finish == FinishReason.STOP
    assert wait.result() == Sampled(tokens=tuple(tokens), stopped=stopped, ended=end is not None)
    assert trajectory.finish == end and touched(trajectory)
    assert len(trajectory.spans) == bool(tokens), "nothing gained is nothing taken down"


def test_the_end_of_sequence_may_end_a_turn_alone() -> None:
    ground = Ground()
    trajectory = opened(ground)
    turn = sampled(trajectory, 5, EOS, ends=False)
    assert turn == Sampled(tokens=(5, EOS), stopped=True, ended=False)
    trajectory.append([7])
    assert sampled(trajectory, 8, EOS).ended and trajectory.finish == FinishReason.STOP
    assert trajectory.tokens == [5, EOS, 7, 8, EOS] and len(ground.judged) == 1


def test_an_end_is_verified_once_with_the_text_that_is_recorded() -> None:
    ground = Ground()
    trajectory = opened(ground)
    finished(trajectory, 5, 6)
    text = make.CODEC.decode([5, 6, EOS])
    assert ground.judged == [("p0", text)] and not trajectory.is_verified
    touched(trajectory)
    ground.verdicts[0].resolve(Verdict(reward=0.5))
    assert trajectory.is_verified and touched(trajectory)
    rollout = trajectory.rollout()
    assert (rollout.text, rollout.reward, rollout.error) == (text, 0.5, None)


def test_what_is_asked_on_the_side_is_not_verified() -> None:
    ground = Ground()
    rollout = finished(opened(ground, role="judge"), 5)
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


def test_what_is_dropped_is_no_rollout_ended_and_judged_or_not() -> None:
    ground = Ground()
    trajectory = opened(ground)
    sampled(trajectory, 5, 6, EOS)
    fork = trajectory.fork(1)
    sampled(fork, 7, finish=FinishReason.LENGTH, max_tokens=1)
    for each in (trajectory, fork):
        each.verdict = Verdict(reward=1.0)
        each.drop("for a reason")
        rollout = each.rollout()
        assert not rollout.complete and rollout.reward is None and each.is_verified
        assert rollout.detail == "for a reason" != BATCH_FULL and len(rollout.spans)
    assert fork.sample().result().ended and len(ground.judged) == 1
    assert fork.rollout().tokens_T.tolist() == [5, 7]


def test_one_that_is_not_verified_is_judged_by_its_part_or_by_nobody() -> None:
    ground = Ground()
    own, silent = (opened(ground, verify=False) for _ in range(2))
    for trajectory in (own, silent):
        sampled(trajectory, 5, EOS)
    assert not ground.judged and not own.is_verified
    own.judge(Verdict(reward=0.5))
    silent.seal()
    assert own.is_verified and own.rollout().reward == 0.5
    assert silent.rollout().reward is None and "no verdict" in str(silent.rollout().error)


def test_what_the_verifier_judges_nobody_else_does() -> None:
    trajectory = opened(Ground())
    sampled(trajectory, 5, EOS)
    with pytest.raises(PartError, match="open it with verify=False"):
        trajectory.judge(Verdict(reward=1.0))


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
    finished(trajectory, 5)
    ground.verdicts[0].resolve(Verdict(reward=1.0))
    trajectory.fail("ValueError: tool broke")
    rollout = trajectory.rollout()
    assert trajectory.is_verified and rollout.finish == FinishReason.ERROR
    assert (rollout.reward, rollout.error) == (None, "ValueError: tool broke")


def test_what_fails_before_anything_is_sampled_is_a_rollout_of_nothing() -> None:
    trajectory = opened(Ground())
    trajectory.fail("tool broke")
    empty = trajectory.rollout()
    assert (empty.finish, empty.detail, empty.error) == (FinishReason.ERROR, "", "tool broke")
    kinds = [v.dtype for v in (empty.tokens_T, empty.logprobs_T, empty.versions_T, empty.mask_T)]
    assert kinds == [np.int32, np.float32, np.int32, np.bool_] and not len(empty)


@over("stopped", [False, True])
def test_an_open_end_is_sealed_and_an_ended_one_stays(stopped: bool) -> None:
    trajectory = opened(Ground())
    ends = FinishReason.STOP if stopped else FinishReason.LENGTH
    sampled(trajectory, 5, 7, finish=ends, max_tokens=2)
    assert trajectory.finish is None
    trajectory.seal()
    assert trajectory.finish == ends
    halted = opened(Ground())
    halted.sample()
    halted.halt("enough", finish=FinishReason.HALTED)
    halted.seal()
    assert (halted.finish, halted.detail) == (FinishReason.HALTED, "enough")


@over("how", ["at its cap", "at a stop", "appended", "for itself"])
def test_what_generate_ends_is_whole_however_its_last_request_closed(how: str) -> None:
    ground = Ground()
    trajectory = opened(ground)
    ends = FinishReason.STOP if how == "at a stop" else FinishReason.LENGTH
    sampled(trajectory, 5, 7, finish=ends, max_tokens=2)
    trajectory.append([6] * (how == "appended"))
    trajectory.end("won")
    trajectory.end("again")
    trajectory.append([6])
    trajectory.seal()
    rollout = trajectory.rollout()
    assert (rollout.finish, rollout.detail, rollout.complete) == ("ended", "won", True)
    assert len(ground.judged) == 1 and trajectory.sample().result().ended
    assert len(rollout) == 2 + (how == "appended") and len(ground.requests) == 1


def test_only_what_goes_on_is_ended_and_never_while_it_samples() -> None:
    trajectory = opened(Ground())
    finished(trajectory, 5)
    trajectory.end("won")
    assert (trajectory.finish, trajectory.detail) == (FinishReason.STOP, "")
    sampling = opened(Ground())
    sampling.sample()
    with pytest.raises(AssertionError, match="not ended while it samples"):
        sampling.end("won")


def test_text_to_append_that_does_not_fit_ends_it_and_says_so() -> None:
    trajectory = opened(Ground())
    trajectory.append([6] * 9)
    assert trajectory.finish is None and len(trajectory.tokens) == 9
    trajectory.append([6])
    assert trajectory.finish == FinishReason.LENGTH and len(trajectory.tokens) == 9
    assert trajectory.detail == "1 tokens to append did not fit"
    full = opened(Ground())
    full.append([6] * 9)
    assert full.sample().done and full.finish == FinishReason.LENGTH


def test_nothing_follows_an_end() -> None:
    ground = Ground()
    ended = opened(ground)
    finished(ended, 5)
    ended.append([6] * 99)
    assert ended.finish == FinishReason.STOP and ended.detail == ""
    assert ended.sample().result() == Sampled(tokens=(), stopped=True, ended=True)
    assert ended.tokens == [5, EOS] and len(ground.requests) == len(ground.judged) == 1


# ---------------------------------------------------------------- what it is frozen as


def test_every_field_of_a_rollout_is_its_trajectory_s() -> None:
    ground = Ground()
    trunk = opened(ground)
    sampled(trunk, 5, 6, finish=FinishReason.LENGTH, version=1, max_tokens=2)
    trunk.append([9])
    branch = trunk.fork(3)
    assert branch is ground.siblings[1] and branch.name == "0.0" and trunk.fork(0).name == "0.1"
    branch.sample()
    gains(branch, 7, version=2)
    branch.notes.update(tries=2, odd=["x"], rate=np.float32(0.5), state=np.str_("#.O"))
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
    expected = replace(
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
        notes={"tries": 2.0, "rate": 0.5, "state": "#.O"},
    )
    assert fields_of(rollout) == fields_of(expected)
    assert [type(v) for v in rollout.notes.values()] == [float, float, str]
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


def test_a_fork_of_a_finished_trajectory_is_open_and_shares_its_past() -> None:
    ground = Ground()
    trunk = opened(ground)
    sampled(trunk, 5, 6, version=1, stop=(6,))
    trunk.append((9, 9))
    sampled(trunk, 7, 8, EOS, version=2)
    for at in range(len(trunk.tokens)):
        branch = trunk.fork(at)
        kept = trunk.rollout()
        assert branch.finish is None and (branch.parent, branch.fork_at) == (trunk.id, at)
        result = sampled(branch, 10, EOS, version=3)
        assert result == Sampled(tokens=(10, EOS), stopped=True, ended=True)
        rollout = branch.rollout()
        for name, new in (("tokens_T", [10, EOS]), ("versions_T", [3, 3]), ("mask_T", [1, 1])):
            whole = [*getattr(kept, name)[:at].tolist(), *new]
            assert getattr(rollout, name).tolist() == whole
        np.testing.assert_array_equal(rollout.logprobs_T[:at], kept.logprobs_T[:at])
        num = [s.stop - s.start for s in rollout.spans]
        assert sum(num) == rollout.mask_T.sum() and rollout.spans[-1].request_id == f"{branch.id}#0"
        shared = [(s.request_id, s.start, s.stop) for s in rollout.spans[:-1]]
        owner = [("g/0#0", 0, min(at, 2)), ("g/0#1", 0, max(0, at - 4))]
        assert shared == [s for s in owner if s[2]]
    forks = [t.id for t in ground.siblings[1:]]
    assert len(set(forks)) == len(trunk.tokens) == len(forks)
    assert trunk.tokens == [5, 6, 9, 9, 7, 8, EOS] and trunk.finish == FinishReason.STOP


def test_a_fork_of_a_fork_reaches_back_into_the_trunk() -> None:
    trunk = opened(Ground())
    sampled(trunk, 5, 6, 7, EOS)
    branch = trunk.fork(3)
    sampled(branch, 8, 9, EOS)
    twig = branch.fork(2)
    assert twig.tokens == [5, 6] and twig.parent == branch.id
    assert twig.spans == [Span(request_id="g/0#0", start=0, stop=2)]
    assert twig.id not in (trunk.id, branch.id)


def test_a_fork_leaves_the_trunk_that_still_runs_alone() -> None:
    trunk = opened(Ground())
    wait = trunk.sample()
    gains(trunk, 5, 6)
    branch = trunk.fork(1)
    sampled(branch, 9, EOS)
    gains(trunk, EOS)
    trunk.close_request(FinishReason.STOP)
    assert wait.result().ended and trunk.tokens == [5, 6, EOS] and branch.tokens == [5, 9, EOS]


def test_a_complete_rollout_is_taken_as_it_is_with_its_verdict() -> None:
    hint = make.prompt(8, text="9=1+2=")
    for changes, judged in (
        ({"reward": 0.0}, 0),
        ({"reward": None, "error": "ValueError: x"}, 0),
        ({"reward": None}, 1),
    ):
        given: dict[str, Any] = {"detail": "x", "sampled_under": hint.tokens, **changes}
        old = make.rollout(
            **given, notes={"tries": 2.0, "state": "#.O"}, finish=FinishReason.LENGTH
        )
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
    sampled(trajectory, 5, EOS, version=5)
    assert len(ground.judged) == 1
    assert trajectory.rollout().versions_T.tolist() == [0, 0, 0, 0, 5, 5]
    assert [s.request_id for s in trajectory.spans] == ["g/0#0", "h/0#0"]
    under = opened(Ground(), prompt=make.prompt(8, text="9="), train_under=JOB.prompt)
    under.resume(make.rollout(finish=FinishReason.ABORTED, sampled_under=(1, 2)))
    assert under.rollout().sampled_under == make.CODEC.prompt("9="), "what it goes on under"
    plain = opened(Ground())
    plain.resume(make.rollout(finish=FinishReason.ABORTED, sampled_under=(1, 2)))
    for own in (plain, plain.fork(2)):
        assert own.rollout().sampled_under == own.ask().tokens[:2] == (1, 2), "as it began"


def test_tokens_that_another_request_began_in_the_middle_are_no_one_s_doing() -> None:
    past = opened(Ground(), group_id="h")
    held = make.rollout(length=3, spans=(Span(request_id="old", start=2, stop=5),))
    past.resume(replace(held, finish=FinishReason.ABORTED, reward=None))
    assert past.problem() is None and past.spans == list(held.spans)


# ---------------------------------------------------------------- what is no rollout


def test_what_was_not_sampled_or_was_changed_is_no_rollout() -> None:
    fine, empty, cut = opened(Ground()), opened(Ground()), opened(Ground())
    finished(fine, 5)
    fine.notes["x"] = float("nan")
    assert fine.problem() is None
    fine.notes["y"] = "high"
    assert fine.problem() is None
    fine.notes["rewards/y"] = "high"
    told = "its notes are no numbers (or texts, but no rewards)"
    assert fine.problem() == f"{told}: {{'rewards/y': 'high'}}"
    fine.notes["rewards/y"], fine.notes["z"] = 0.5, ["high"]
    assert fine.problem() == f"{told}: {{'z': ['high']}}"
    empty.append([6])
    assert empty.problem() == "no token was sampled for it"
    cut.append([6] * 10)
    said = "no token was sampled for it (10 tokens to append did not fit)"
    assert cut.problem() == said


@over("name", ["tokens", "logprobs", "versions", "mask"])
def test_columns_that_were_changed_by_hand_are_dropped(name: str) -> None:
    trajectory = opened(Ground())
    finished(trajectory, 5, 6)
    getattr(trajectory, name).pop()
    said = "its tokens were changed by hand: use `sample`, `append` and `fork` only"
    assert trajectory.problem() == said
    rollout = trajectory.rollout()
    assert len(rollout) == len(rollout.mask_T) == 0 and rollout.text == ""
    assert len(rollout.logprobs_T) == len(rollout.versions_T) == 0


def test_log_probs_that_are_not_finite_make_no_rollout() -> None:
    trajectory = opened(Ground())
    finished(trajectory, 5, 6)
    assert trajectory.problem() is None
    trajectory.logprobs[1] = float("nan")
    assert "log-probs that are not finite" in str(trajectory.problem())


def test_siblings_are_all_that_were_opened_and_say_how_they_ended() -> None:
    ground = Ground()
    first = opened(ground)
    first.sample()
    gains(first, 5)
    child = first.fork(at=1)
    first.halt("enough", finish=FinishReason.HALTED)
    assert first.siblings == child.siblings == (first, child)
    assert [t.finish for t in first.siblings] == [FinishReason.HALTED, None]
