"""Verdicts: what is none, in which order they are given out, and whether a second asking agrees."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.loop import scoring
from gfcr.loop.coroutine import Pending
from gfcr.loop.pool import Done
from gfcr.loop.scoring import Desk, verify_safely
from gfcr.tasks.base import Asked, Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt
from tests.cases import over

NAN = float("nan")


@dataclass(kw_only=True)
class Answers(make.CoinTask):
    """A verifier that answers what it is told to, or raises it."""

    answer: Any

    def verify(self, prompt: Prompt, *, text: str) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def judged(answer: Any) -> Verdict:
    return verify_safely(Answers(answer=answer), make.prompt(), "x")


# ---------------------------------------------------------------- what is no verdict


@over("reward", [0.25, True, np.float32(0.25), np.int64(2), Fraction(1, 4)])
def test_real_numbers_of_python_and_numpy_are_rewards(reward: Any) -> None:
    verdict = judged(Verdict(reward=reward))
    assert type(verdict.reward) is float and verdict.reward == float(reward)


@over("reward", [NAN, 1e39, 10**400, 1j, "1", np.ones(1)])
def test_what_is_no_finite_number_is_unscorable_and_named(reward: Any) -> None:
    verdict = judged(Verdict(reward=reward))
    assert verdict.reward is None
    assert "Answers.verify gave the reward" in str(verdict.error)
    assert len(str(verdict.error)) < 2200


def test_notes_say_which_scores_are_measurements_and_no_rewards() -> None:
    task = Answers(answer=Verdict(reward=1.0, scores={"x": 0.5}))
    scored, rewards = judged(task.answer), {"rewards/x": 0.5}
    assert Desk(task).notes_of(scored, judged=False) == rewards
    object.__setattr__(task, "measures", True)
    assert Desk(task).notes_of(scored, judged=False) == rewards | {"measured": 1.0}
    assert Desk(task).notes_of(scored, judged=True) == rewards, "an environment's own"
    assert Desk(task).notes_of(Verdict(reward=1.0), judged=False) == {}


@over("scores", [{"right": NAN}, {"right": "1"}, {"right": None}, [1.0], "right"])
def test_scores_that_are_no_numbers_by_name_are_unscorable_and_named(scores: Any) -> None:
    verdict = judged(Verdict(reward=1.0, scores=scores))
    assert verdict.reward is None and "not numbers by name" in str(verdict.error)
    assert judged(Verdict(reward=1.0, scores={"right": 1})).scores == {"right": 1.0}


def test_what_was_given_instead_is_shown_with_its_type() -> None:
    by = "VerdictError: Answers.verify"
    assert judged(0.5) == Verdict(reward=None, error=f"{by} returned 0.5 (float), not a Verdict")
    assert judged(None).error == f"{by} returned None (NoneType), not a Verdict"
    said = f"{by} gave the reward '1' (str), not a finite number"
    given: Any = "1"
    assert judged(Verdict(reward=given)).error == said


def test_what_cannot_be_written_down_is_unscorable_too() -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    assert "too large to write" in str(judged(Verdict(reward=10**9999)).error)
    verdict = judged(Mute())
    assert verdict.reward is None and "cannot be shown" in str(verdict.error)


def test_a_verdict_with_an_error_has_no_reward() -> None:
    assert judged(Verdict(reward=0.0, error="tests timed out")).reward is None


def test_a_verifier_that_exits_is_unscorable_and_its_long_words_are_cut() -> None:
    verdict = judged(SystemExit("y" * 10_000_000))
    assert verdict.reward is None and "SystemExit" in str(verdict.error)
    assert len(str(verdict.error)) < 2200 and "characters left out" in str(verdict.error)


# ---------------------------------------------------------------- the desk


@dataclass(kw_only=True)
class Counts(make.CoinTask):
    """Rewards the length of an answer, plus what is added by now; notes what it is asked."""

    added: float = 0.0
    odd: Callable[[], None] | None = None
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        self.asked.append((prompt.id, text))
        return Verdict(reward=len(text) + self.added)


def finished(desk: Desk) -> None:
    while desk.busy:
        desk.wait()
        desk.deliver()


def test_verdicts_come_in_the_order_they_were_asked_for_and_when_they_are_delivered() -> None:
    task, came = Counts(), list[float]()
    desk = Desk(task)
    assert (desk.verifier_calls, desk.waited_s, desk.busy) == (0, 0.0, False)
    for text in ("aaa", "b", "cc"):
        pending = desk.verify(make.prompt(len(text)), text=text)
        pending.when_done(lambda own=pending: came.append(own.result().reward or 0.0))
    assert task.asked == [("p3", "aaa"), ("p1", "b"), ("p2", "cc")] and not came and desk.busy
    desk.deliver()
    assert came == [3, 1, 2] and not desk.busy and desk.verifier_calls == 3
    desk.deliver()
    assert came == [3, 1, 2]


@dataclass(kw_only=True)
class Ranks(make.CoinTask):
    """Rewards the rank of an answer's length among all in the call; notes what it was given."""

    together: ClassVar[bool] = True
    calls: list[list[str]] = field(default_factory=list[list[str]])

    def verify_all(self, asked: Sequence[Asked]) -> list[Verdict]:
        self.calls.append([each.text for each in asked])
        if any(each.text == "bad" for each in asked):
            raise ValueError("no grader")
        lengths = sorted(len(each.text) for each in asked)
        return [Verdict(reward=lengths.index(len(each.text))) for each in asked]


def asking(desk: Desk, *texts: str) -> list[Pending[Verdict]]:
    """Asks for texts by place, `step:group:prompt/slot`, of the prompt that the place names."""
    placed = [text.partition(" ") for text in texts]
    return [
        desk.verify(make.prompt(int(place.split(":")[1])), text=text, place=place)
        for place, _, text in placed
    ]


def test_completions_scored_together_are_in_the_order_of_their_groups_and_slots() -> None:
    task = Ranks()
    desk = Desk(task)
    told = asking(desk, "0:10:p/0 dddd", "0:2:p/10 ccc", "0:2:p/9 a")
    desk.deliver()
    assert not task.calls and desk.busy, "other completions may come as long as the engine decodes"
    finished(desk)
    assert task.calls == [["a", "ccc", "dddd"]]
    assert [pending.result().reward for pending in told] == [2, 1, 0] and desk.verifier_calls == 3


def test_a_batch_is_scored_without_another_and_not_while_a_tool_answers() -> None:
    task, go = Ranks(), threading.Event()
    desk = Desk(task)
    asking(desk, "0:1:p/0 a", "1:1:p/0 b", "0:2:p/0 c")
    answer = desk.call(go.wait, 20.0)
    desk.score(0)
    assert not task.calls, "what the tool answers may yet be compared with it"
    go.set()
    while not answer.done:
        desk._poll_threads()
    desk.score(0)
    assert task.calls == [["a", "c"]]
    finished(desk)
    assert task.calls[1:] == [["b"]]
    desk.close()


def test_where_one_call_fails_those_that_fail_alone_are_unscorable_and_left_out() -> None:
    task = Ranks()
    desk = Desk(task)
    told = asking(desk, "0:1:p/0 a", "0:1:p/1 aa", "0:2:p/0 bbb", "0:2:p/1 bad", "0:2:p/2 b")
    finished(desk)
    assert task.calls[1:3] == [["a", "aa"], ["bbb", "bad", "b"]]
    assert task.calls[3:] == [["bbb"], ["bad"], ["b"], ["bbb", "b"]]
    assert [pending.result().reward for pending in told] == [0, 1, 1, None, 0]
    assert "no grader" in str(told[3].result().error)


def test_completions_that_only_take_their_time_are_scored_together_in_the_end() -> None:
    """One call for all takes longer than one may, and none of them alone."""

    class Slow(Ranks):
        slow: ClassVar[bool] = True
        timeout_s: float = 2.0

    class Pool:
        def __init__(self) -> None:
            self.asked, self.done = list[tuple[int, float]](), list[Done]()

        def submit(self, function: Any, task: Any, asked: Any, *, timeout_s: float) -> int:
            handle = len(self.asked)
            self.asked.append((len(asked), timeout_s))
            late = 1.5 * len(asked) > timeout_s
            result = None if late else function(task, asked)
            self.done.append(Done(handle=handle, result=result, error="late" if late else None))
            return handle

        def poll(self) -> list[Done]:
            done, self.done = self.done, []
            return done

        def wait(self, seconds: float) -> None:
            """Everything is done when it is asked for."""

    desk, pool = Desk(Slow()), Pool()
    desk._processes = pool  # pyright: ignore[reportAttributeAccessIssue]
    told = asking(desk, "0:1:p/0 a", "0:1:p/1 aa", "0:1:p/2 bbb")
    finished(desk)
    assert pool.asked == [(3, 2.0), (1, 2.0), (1, 2.0), (1, 2.0), (3, 6.0)]
    assert [pending.result().reward for pending in told] == [0, 1, 2]


def test_what_is_no_verdict_for_each_is_unscorable() -> None:
    class Few(Ranks):
        def verify_all(self, asked: Sequence[Asked]) -> list[Verdict]:
            return [Verdict(reward=1.0)]

    desk = Desk(Few())
    told = asking(desk, "0:1:p/0 a", "0:1:p/1 aa")
    finished(desk)
    assert all("for 2 completions" in str(pending.result().error) for pending in told)
    asking(desk, "0:1:p/0 a")
    desk.forget()
    assert not desk.busy


def test_a_call_runs_beside_the_loop_and_its_error_is_raised_where_it_is_awaited() -> None:
    desk, go = Desk(Counts()), threading.Event()

    def fails() -> None:
        raise ValueError("no such thing")

    waits, sums, breaks = desk.call(go.wait, 20.0), desk.call(sum, [1, 2]), desk.call(fails)
    while not (sums.done and breaks.done):
        desk.wait(0.01)
        desk.deliver()
    assert sums.result() == 3 and not waits.done and desk.busy
    with pytest.raises(RuntimeError, match="ValueError: no such thing"):
        breaks.result()
    go.set()
    finished(desk)
    assert waits.result() is True and desk.verifier_calls == 0
    desk.close()
    desk.close()


def test_what_a_call_says_to_the_user_is_raised_as_it_is() -> None:
    desk = Desk(Counts())

    def refuses() -> None:
        raise ConfigError("reward.model='x' holds no model.")

    pending = desk.call(refuses)
    finished(desk)
    with pytest.raises(ConfigError, match="holds no model"):
        pending.result()
    desk.close()


def test_waiting_is_measured_and_with_nothing_outstanding_there_is_none() -> None:
    desk, go = Desk(Counts()), threading.Event()
    desk.wait(30.0)
    assert 0 <= desk.waited_s < 5
    pending = desk.call(go.wait, 20.0)
    before = desk.waited_s
    for _ in range(2):
        desk.wait(0.02)
    assert 0.03 < desk.waited_s - before < 10 and not pending.done
    desk.wait()
    assert desk.waited_s - before > 0.06
    go.set()
    finished(desk)
    desk.close()


def test_what_is_forgotten_is_never_delivered() -> None:
    desk, go = Desk(Counts()), threading.Event()
    pending: list[Any] = [desk.verify(make.prompt(), text="a"), desk.call(go.wait, 20.0)]
    desk.forget()
    assert not desk.busy
    go.set()
    after = desk.call(sum, [1])
    finished(desk)
    desk.wait(0.0)
    desk.deliver()
    assert after.result() == 1 and not any(p.done for p in pending)
    desk.close()


def test_answers_that_are_scored_otherwise_the_second_time_are_counted() -> None:
    task = Counts()
    groups = [make.group([1.0, 4.0, None]), make.group([4.0, 0.0])]
    assert scoring.asked_again(groups, desk=Desk(task)) == 2
    assert len(task.asked) == 4, "what had no reward is not asked for one"
    task.added = 1e-12
    assert scoring.asked_again([make.group([4.0])], desk=Desk(task)) == 0
    task.added = 1e-8
    assert scoring.asked_again([make.group([4.0])], desk=Desk(task)) == 1
    task.added = float("nan")
    assert scoring.asked_again([make.group([0.0])], desk=Desk(task)) == 1


def test_answers_are_asked_again_in_the_opposite_order() -> None:
    task = Counts()
    groups = [
        make.group_of([make.rollout(i, text="x" * i, reward=float(i)) for i in span])
        for span in ((1, 2), (3, 4))
    ]
    assert scoring.asked_again(groups, desk=Desk(task)) == 0
    assert [text for _, text in task.asked] == ["xxxx", "xxx", "xx", "x"]


@dataclass(kw_only=True)
class Slow(Counts):
    slow = True
    timeout_s: float = 7.0
    memory_gib: float = 1.5


class Here:
    """In place of the processes: notes what it is made with and asked for, and runs it here."""

    made: ClassVar[list["Here"]] = []

    def __init__(self, *, num_processes: int = 2, memory_gib: float = 4.0) -> None:
        self.bounds, self.limits, self.open = (num_processes, memory_gib), list[float](), True
        self.given: list[Any] = []
        self.made.append(self)

    def submit(self, function: Any, *args: Any, timeout_s: float) -> int:
        self.limits.append(timeout_s)
        self.given.append((len(self.limits), function, args))
        return len(self.limits)

    def poll(self) -> list[Done]:
        given, self.given = self.given, []
        return [
            Done(handle=handle, error="timed out")
            if args[-1] == "hang"
            else Done(handle=handle, result=function(*args))
            for handle, function, args in given
        ]

    def wait(self, seconds: float) -> None:
        assert self.given and seconds == 0.05

    def close(self) -> None:
        self.open = False


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Here]:
    monkeypatch.setattr("gfcr.loop.pool.ProcessPool", Here)
    monkeypatch.setattr(Here, "made", [])
    return Here.made


def test_a_slow_task_scores_in_processes_with_its_own_limits(pools: list[Here]) -> None:
    desk = Desk(Slow())
    told = [desk.verify(make.prompt(), text=text) for text in ("aaa", "hang", "b")]
    assert desk.busy and not any(p.done for p in told)
    finished(desk)
    assert [p.result() for p in told] == [
        Verdict(reward=3.0),
        Verdict(reward=None, error="timed out"),
        Verdict(reward=1.0),
    ]
    (pool,) = pools
    assert (pool.bounds, pool.limits) == ((2, 1.5), [7.0] * 3)
    dropped = desk.verify(make.prompt(), text="cc")
    desk.forget()
    desk.deliver()
    assert not dropped.done and not desk.busy, "what is forgotten is not delivered"
    desk.close()
    assert not pool.open
    desk.verify(make.prompt(), text="a")
    assert len(pools) == 2
