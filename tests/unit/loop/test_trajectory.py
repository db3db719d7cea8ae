"""Trajectories in the making: provenance, forks, caps, ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.engine.base import Delta, Request
from gfcr.errors import PartError
from gfcr.ledger import cut_spans
from gfcr.loop.coroutine import Pending, Run
from gfcr.loop.floor import Floor, Origin
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.loop.view import shown
from gfcr.stages import BATCH_FULL, Job, Sampled
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Sampling, Span
from tests.cases import over

EOS = make.CODEC.eos_id
VIEW = shown(make.view())


@dataclass
class Ground:
    """An engine and a desk that only note what is asked of them."""

    cap: int = 100
    requests: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    forks: list[LiveTrajectory] = field(default_factory=list)
    version: int = 0
    max_length: int = 1000

    def submit(self, request: Request) -> None:
        self.requests.append((request.id, request.sampling.max_tokens, request.stop))

    def abort(self, request_ids: Sequence[str]) -> None:
        pass

    def verify(self, prompt: Prompt, *, text: str) -> Pending[Verdict]:
        self.ends.append(text)
        return Pending()


def opened(ground: Ground) -> LiveTrajectory:
    return begun("g", ground)


def begun(group_id: str, ground: Ground) -> LiveTrajectory:
    sampling, what = Sampling(max_tokens=ground.cap), cast("Any", ground)
    job = Job(prompt=make.prompt(), num_samples=1, sampling=sampling)
    floor = Floor(engine=what, codec=make.CODEC, desk=what, seed=0)
    origin = Origin(floor=floor, group_id=group_id, job=job, view=VIEW, repeat=0)
    siblings = ground.forks
    return LiveTrajectory(
        "0", origin=origin, prompt=job.prompt, sampling=sampling, siblings=siblings
    )


def sampled(
    trajectory: LiveTrajectory,
    tokens: Sequence[int],
    *,
    finish: FinishReason = FinishReason.STOP,
    version: int = 0,
    **asked: Any,
) -> Sampled:
    """One `sample` call that the engine answers with these tokens, one a step."""
    wait = trajectory.sample(**asked)
    request_id = f"{trajectory.id}#{trajectory.turns - 1}"
    for token in tokens:
        delta = Delta(request_id=request_id, tokens=(token,), logprobs=(-token / 8,))
        trajectory.extend(delta, version=version)
    trajectory.close_request(finish)
    return wait.result()


def frozen(trajectory: LiveTrajectory) -> Any:
    return trajectory.rollout()


def test_turns_and_environment_tokens_keep_their_provenance() -> None:
    ground = Ground()
    trajectory = opened(ground)
    result = sampled(trajectory, [5, 6], version=3, stop=(6,))
    assert result == Sampled(tokens=(5, 6), stopped=True, ended=False)
    trajectory.append((9, 9, 9))
    result = sampled(trajectory, [7, EOS], version=4)
    assert result == Sampled(tokens=(7, EOS), stopped=True, ended=True)
    assert ground.requests == [("g/0#0", 100, (6,)), ("g/0#1", 95, ())]
    rollout = frozen(trajectory)
    assert rollout.tokens_T.tolist() == [5, 6, 9, 9, 9, 7, EOS]
    assert rollout.mask_T.tolist() == [True, True, False, False, False, True, True]
    assert rollout.versions_T.tolist() == [3, 3, -1, -1, -1, 4, 4]
    assert rollout.logprobs_T.tolist() == [-0.625, -0.75, 0, 0, 0, -0.875, -0.125]
    spans = (
        Span(request_id="g/0#0", start=0, stop=2),
        Span(request_id="g/0#1", start=0, stop=2),
    )
    assert rollout.spans == spans and rollout.finish == FinishReason.STOP
    assert len(ground.ends) == 1


def test_the_cap_bounds_each_call_and_the_whole() -> None:
    ground = Ground(cap=5)
    trajectory = opened(ground)
    result = sampled(trajectory, [5, 6], finish=FinishReason.LENGTH, max_tokens=2)
    assert not result.ended and not result.stopped and trajectory.finish is None
    result = sampled(trajectory, [5, 6, 7], finish=FinishReason.LENGTH, max_tokens=9)
    assert ground.requests[1][1] == 3 and result.ended and not result.stopped
    assert trajectory.finish == FinishReason.LENGTH
    again = trajectory.sample()
    assert again.done and again.result() == Sampled(tokens=(), stopped=False, ended=True)
    assert len(ground.ends) == 1 and len(ground.requests) == 2


@over("size", [1, 3, 4, 9])
def test_environment_tokens_that_do_not_fit_end_the_trajectory(size: int) -> None:
    ground = Ground(cap=6)
    trajectory = opened(ground)
    sampled(trajectory, [5, 6, 7], stop=(7,))
    trajectory.append([9] * size)
    fits = size <= 3
    assert len(trajectory.tokens) == (3 + size if fits else 3)
    assert trajectory.finish == (None if fits else FinishReason.LENGTH)
    assert trajectory.sample().done == (size >= 3)
    assert trajectory.finish == (FinishReason.LENGTH if size >= 3 else None)
    assert len(ground.ends) <= 1


def test_nothing_follows_an_end() -> None:
    trajectory = opened(Ground())
    sampled(trajectory, [5, EOS])
    trajectory.append((9,))
    assert trajectory.tokens == [5, EOS]


def test_a_fork_of_a_finished_trajectory_is_open_and_shares_its_past() -> None:
    ground = Ground()
    trunk = opened(ground)
    sampled(trunk, [5, 6], version=1, stop=(6,))
    trunk.append((9, 9))
    sampled(trunk, [7, 8, EOS], version=2)
    for at in range(len(trunk.tokens)):
        branch = trunk.fork(at)
        kept = frozen(trunk)
        assert branch.finish is None and (branch.parent, branch.fork_at) == (trunk.id, at)
        result = sampled(branch, [10, EOS], version=3)
        assert result == Sampled(tokens=(10, EOS), stopped=True, ended=True)
        rollout = frozen(branch)
        for name, new in (("tokens_T", [10, EOS]), ("versions_T", [3, 3]), ("mask_T", [1, 1])):
            whole = [*getattr(kept, name)[:at].tolist(), *new]
            assert getattr(rollout, name).tolist() == whole
        np.testing.assert_array_equal(rollout.logprobs_T[:at], kept.logprobs_T[:at])
        num = [s.stop - s.start for s in rollout.spans]
        assert sum(num) == rollout.mask_T.sum() and rollout.spans[-1].request_id == f"{branch.id}#0"
        shared = [(s.request_id, s.start, s.stop) for s in rollout.spans[:-1]]
        owner = [("g/0#0", 0, min(at, 2)), ("g/0#1", 0, max(0, at - 4))]
        assert shared == [s for s in owner if s[2]]
    forks = [t.id for t in ground.forks[1:]]
    assert len(set(forks)) == len(trunk.tokens) == len(forks)
    assert trunk.tokens == [5, 6, 9, 9, 7, 8, EOS] and trunk.finish == FinishReason.STOP


def test_a_fork_of_a_fork_reaches_back_into_the_trunk() -> None:
    trunk = opened(Ground())
    sampled(trunk, [5, 6, 7, EOS])
    branch = trunk.fork(3)
    sampled(branch, [8, 9, EOS])
    twig = branch.fork(2)
    assert twig.tokens == [5, 6] and twig.parent == branch.id
    assert twig.spans == [Span(request_id="g/0#0", start=0, stop=2)]
    assert twig.id not in (trunk.id, branch.id)


def test_a_fork_leaves_the_trunk_that_still_runs_alone() -> None:
    trunk = opened(Ground())
    wait = trunk.sample()
    trunk.extend(Delta(request_id="g/0#0", tokens=(5, 6), logprobs=(0, 0)), version=0)
    branch = trunk.fork(1)
    sampled(branch, [9, EOS])
    trunk.extend(Delta(request_id="g/0#0", tokens=(EOS,), logprobs=(0,)), version=0)
    trunk.close_request(FinishReason.STOP)
    assert wait.result().ended and trunk.tokens == [5, 6, EOS] and branch.tokens == [5, 9, EOS]


def test_what_is_dropped_is_no_rollout_ended_and_judged_or_not() -> None:
    trajectory = opened(ground := Ground())
    sampled(trajectory, [5, 6, EOS])
    fork = trajectory.fork(1)
    sampled(fork, [7], finish=FinishReason.LENGTH, max_tokens=1)
    for each in (trajectory, fork):
        each.verdict = Verdict(reward=1.0)
        each.drop("for a reason")
        rollout = frozen(each)
        assert not rollout.complete and rollout.reward is None and each.is_verified
        assert rollout.detail == "for a reason" != BATCH_FULL and len(rollout.spans)
    assert fork.sample().result().ended and len(ground.ends) == 1
    assert frozen(fork).tokens_T.tolist() == [5, 7]


def test_a_resumed_rollout_continues_or_is_taken_as_it_is() -> None:
    first = opened(Ground())
    sampled(first, [5, 6], finish=FinishReason.LENGTH, max_tokens=2)
    first.notes["tool_calls"] = 2
    second = begun("h", Ground())
    second.resume(frozen(first))
    assert second.finish is None and second.notes == {"tool_calls": 2}
    sampled(second, [7, EOS], version=5)
    assert frozen(second).versions_T.tolist() == [0, 0, 5, 5]
    assert [s.request_id for s in second.spans] == ["g/0#0", "h/0#0"]
    ground = Ground()
    third = begun("i", ground)
    third.resume(frozen(second))
    assert third.finish == FinishReason.STOP and len(ground.ends) == 1
    assert third.sample().result().ended and not ground.requests


def test_tokens_that_another_request_began_in_the_middle_are_no_one_s_doing() -> None:
    past = begun("h", Ground())
    held = make.rollout(length=3, spans=(Span(request_id="old", start=2, stop=5),))
    past.resume(replace(held, finish=FinishReason.ABORTED, reward=None))
    assert past.problem() is None and past.spans == list(held.spans)


def test_the_last_token_there_is_room_for_is_sampled() -> None:
    trajectory = opened(Ground(cap=3))
    first = sampled(trajectory, [5, 6], finish=FinishReason.LENGTH, max_tokens=2)
    assert not first.ended and trajectory.finish is None
    assert sampled(trajectory, [7], finish=FinishReason.LENGTH).ended
    assert frozen(trajectory).tokens_T.tolist() == [5, 6, 7]


def test_what_fails_before_anything_is_sampled_is_a_rollout_of_nothing() -> None:
    trajectory = opened(Ground())
    trajectory.fail("tool broke")
    empty = frozen(trajectory)
    assert (empty.finish, empty.detail, empty.error) == (FinishReason.ERROR, "", "tool broke")
    kinds = [v.dtype for v in (empty.tokens_T, empty.logprobs_T, empty.versions_T, empty.mask_T)]
    assert kinds == [np.int32, np.float32, np.int32, np.bool_] and not len(empty)


def test_control_ends_a_running_trajectory_and_wakes_its_generate() -> None:
    trajectory = opened(Ground())
    woken: list[Sampled] = []

    async def run() -> None:
        woken.append(await trajectory.sample())

    Run(run())
    trajectory.extend(Delta(request_id="g/0#0", tokens=(5,), logprobs=(0,)), version=0)
    trajectory.halt("loop", finish=FinishReason.HALTED)
    assert woken == [Sampled(tokens=(5,), stopped=False, ended=True)]
    assert frozen(trajectory).finish == FinishReason.HALTED and trajectory.detail == "loop"
    assert frozen(trajectory).complete


def test_what_was_parked_goes_on_behind_what_it_had_gained() -> None:
    ground = Ground(cap=9)
    trajectory = opened(ground)
    traffic, wait = trajectory._origin.floor.traffic, trajectory.sample(max_tokens=6, stop=(8,))
    trajectory.extend(Delta(request_id="g/0#0", tokens=(5, 6), logprobs=(0, 0)), version=0)
    traffic.park()
    assert len(traffic) == 1 and len(ground.requests) == 1
    traffic.go_on()
    assert ground.requests == [("g/0#0", 6, (8,)), ("g/0#1", 4, (8,))]
    trajectory.extend(Delta(request_id="g/0#1", tokens=(7, 8), logprobs=(0, 0)), version=1)
    trajectory.close_request(FinishReason.STOP)
    assert wait.result() == Sampled(tokens=(5, 6, 7, 8), stopped=True, ended=False)
    rollout = frozen(trajectory)
    assert rollout.versions_T.tolist() == [0, 0, 1, 1]
    assert [s.request_id for s in rollout.spans] == ["g/0#0", "g/0#1"]


def test_what_is_asked_while_parked_waits_and_may_be_withdrawn() -> None:
    ground = Ground()
    first, second = opened(ground), begun("h", ground)
    traffic = first._origin.floor.traffic
    traffic.park()
    first.sample()
    assert not ground.requests and len(traffic) == 1
    first.withdraw()
    traffic.go_on()
    assert not ground.requests and len(traffic) == 0
    second.sample()
    assert [name for name, _, _ in ground.requests] == ["h/0#0"]


def test_an_open_end_is_sealed_with_the_reason_of_its_last_request() -> None:
    for finish in (FinishReason.STOP, FinishReason.LENGTH):
        ground = Ground()
        trajectory = opened(ground)
        sampled(trajectory, [5, 6], finish=finish, max_tokens=2, stop=(6,))
        assert trajectory.finish is None and not ground.ends
        trajectory.seal()
        trajectory.seal()
        assert trajectory.finish == finish and len(ground.ends) == 1


def test_a_cut_keeps_what_had_ended() -> None:
    ended, running = opened(Ground()), opened(Ground())
    sampled(ended, [5, EOS])
    running.sample()
    cut = [frozen(trajectory) for trajectory in (ended, running)]
    assert [r.finish for r in cut] == [FinishReason.STOP, FinishReason.ABORTED]
    assert [r.detail for r in cut] == ["", BATCH_FULL]


@given(lengths=st.lists(st.integers(1, 5), max_size=5), num=st.integers(0, 30))
def test_cut_spans_are_the_spans_of_the_first_tokens(lengths: list[int], num: int) -> None:
    spans = [Span(request_id=str(i), start=0, stop=n) for i, n in enumerate(lengths)]
    every = [(s.request_id, i) for s in spans for i in range(s.start, s.stop)]
    kept = cut_spans(spans, num=num)
    assert [(s.request_id, i) for s in kept for i in range(s.start, s.stop)] == every[:num]


def test_the_end_of_sequence_may_end_a_turn_alone() -> None:
    ground = Ground(cap=6)
    trajectory = opened(ground)
    assert sampled(trajectory, [5, EOS], ends=False) == Sampled(
        tokens=(5, EOS), stopped=True, ended=False
    )
    trajectory.append([7])
    assert sampled(trajectory, [8, EOS]).ended and trajectory.finish == FinishReason.STOP
    assert trajectory.tokens == [5, EOS, 7, 8, EOS] and len(ground.ends) == 1


class Vouching(Ground):
    """A desk that hands verdicts on."""

    def checked(self, verdict: Verdict) -> Verdict:
        return verdict


def test_one_that_is_not_verified_is_judged_by_its_part_or_by_nobody() -> None:
    ground = Vouching()
    own, silent = opened(ground), opened(ground)
    for trajectory in (own, silent):
        trajectory._verify = False
        sampled(trajectory, [5, EOS])
    assert not ground.ends and not own.is_verified
    own.judge(Verdict(reward=0.5))
    silent.seal()
    assert own.is_verified and own.rollout().reward == 0.5
    assert silent.rollout().reward is None and "no verdict" in str(silent.rollout().error)


def test_what_the_verifier_judges_nobody_else_does() -> None:
    trajectory = opened(Vouching())
    sampled(trajectory, [5, EOS])
    with pytest.raises(PartError, match="open it with verify=False"):
        trajectory.judge(Verdict(reward=1.0))
