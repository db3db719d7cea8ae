"""Verification beside the event loop: fast verifiers at once, slow ones in killable processes."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any, TypeVar

from gfcr.errors import described, shortened, shown
from gfcr.handles import JUDGED, MEASURED, REWARDS
from gfcr.loop import posing
from gfcr.loop.coroutine import Pending
from gfcr.loop.together import Together, Waiting
from gfcr.tasks.base import Asked, Posed, Task, Verdict
from gfcr.types import Group, Prompt
from gfcr.values.numbers import real

if TYPE_CHECKING:
    from gfcr.loop.pool import ProcessPool, ThreadPool

T = TypeVar("T")


class Desk:
    """Runs the slow work of a run and hands results back to the loop, in a fixed order.

    Verifiers go to processes that can be killed; tools and judges (`Session.call`) to threads.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._answers: deque[tuple[Pending[Any], Any]] = deque()
        """Answers of the task that are not delivered yet, each with the pending that waits for it.
        """
        self._processes: ProcessPool | None = None
        self._threads: ThreadPool | None = None
        self._asked: dict[int, tuple[Pending[Any], Callable[[str], Any]]] = {}
        """Calls of the task that run in processes: who waits, and how an error becomes an answer.
        """
        self.together = Together(task, pool=self._pool, answer=self._answer_one, failed=_unscorable)
        """What the task scores in one call."""
        self._calling: dict[int, Pending[Any]] = {}
        self.verifier_calls = 0
        self.waited_s = 0.0

    @property
    def busy(self) -> bool:
        """Returns whether results are outstanding."""
        return bool(self._answers or self._asked or self._calling) or self.together.busy

    def verify(
        self, prompt: Prompt, *, text: str, tokens: Sequence[int] = (), place: str = ""
    ) -> Pending[Verdict]:
        """Scores a completion; the verdict is available after a later `deliver`.

        Args:
            prompt: what was asked.
            text: the completion.
            tokens: its tokens.
            place: the rollout's id, by which completions that are scored together are ordered.
        """
        self.verifier_calls += 1
        if self.task.together:
            pending = Pending[Verdict]()
            asked = Asked(prompt=prompt, text=text, tokens=tuple(tokens))
            self.together.add(Waiting(place, asked, pending))
            return pending
        return self._asking(verify_safely, self.task, prompt, text, failed=_unscorable)

    def notes_of(self, verdict: Verdict, *, judged: bool) -> dict[str, float]:
        """Returns a rollout's notes of its verdict; if `judged`, it is not the task's own."""
        notes = {f"{REWARDS}{name}": score for name, score in verdict.scores.items()}
        return notes | ({MEASURED: 1.0} if notes and self.task.measures and not judged else {})

    def pose(self, prompt: Prompt, *, text: str) -> Pending[Posed]:
        """Asks the task to make a problem of a proposal; a later `deliver` gives the answer."""
        return self._asking(posing.pose_safely, self.task, prompt, text, failed=posing.failed)

    def checked(self, verdict: Any, *, prompt: Prompt) -> Verdict:
        """Checks an environment's verdict as a verifier's, and against the prompt's range."""
        found = _checked(verdict, by="VerdictError: the environment")
        bounds = self.task.range_of(prompt)
        if found.reward is None or not bounds or bounds[0] <= found.reward <= bounds[1]:
            return found
        return _unscorable(
            f"VerdictError: the environment's reward {found.reward:g} is outside [{bounds[0]:g}, "
            f"{bounds[1]:g}], between which those of task {type(self.task).__name__} lie: scale "
            "it, or take a task of another range (dataset.verifier_range)"
        )

    def call(self, function: Callable[..., Any], *args: Any) -> Pending[Any]:
        """Runs `function(*args)` in a thread; the result comes with a later `deliver`."""
        from gfcr.loop.pool import ThreadPool

        self._threads = self._threads or ThreadPool()
        pending: Pending[Any] = Pending()
        self._calling[self._threads.submit(function, *args)] = pending
        return pending

    def score(self, batch: int) -> None:
        """Has what waits of a batch scored together, unless a tool or a judge still answers."""
        if not self._calling:
            self.together.ask(of=f"{batch}:")

    def deliver(self) -> None:
        """Hands out the results that have arrived, to those who wait for them."""
        self._poll_threads()
        self._poll_processes()
        # Whoever is resumed below may ask for more, which waits for the next `deliver`.
        answers = list(self._answers)
        self._answers.clear()
        for pending, answer in answers:
            pending.resolve(answer)

    def wait(self, seconds: float = 0.05) -> None:
        """Blocks for at most `seconds` for results; call when the engine has nothing to do."""
        began = time.perf_counter()
        # Nothing is decoded now: as many completions as possible are compared in one call.
        if not self.together.ask():
            if self._calling and self._threads:
                self._threads.wait(seconds)
            elif (self._asked or self.together.busy) and self._processes:
                self._processes.wait(seconds)
        self.waited_s += time.perf_counter() - began

    def forget(self) -> None:
        """Drops outstanding work, when the batch that it was for is over."""
        for held in (self._answers, self._asked, self._calling):
            held.clear()
        self.together.forget()

    def close(self) -> None:
        """Stops the pools."""
        for pool in (self._processes, self._threads):
            if pool is not None:
                pool.close()
        self._processes = self._threads = None

    def _asking(
        self, function: Callable[..., T], *args: Any, failed: Callable[[str], T]
    ) -> Pending[T]:
        """Calls the task, in a process that can be killed if the task is slow."""
        task, pending = self.task, Pending[T]()
        if not task.slow:
            self._answers.append((pending, function(*args)))
            return pending
        handle = self._pool().submit(function, *args, timeout_s=task.timeout_s)
        self._asked[handle] = pending, failed
        return pending

    def _pool(self) -> "ProcessPool":
        from gfcr.loop.pool import ProcessPool

        # What a function keeps between its calls is in one process, as it is in TRL.
        num = 1 if self.task.together else 2
        self._processes = self._processes or ProcessPool(
            num_processes=num, memory_gib=self.task.memory_gib
        )
        return self._processes

    def _answer_one(self, pending: Pending[Verdict], given: Any) -> None:
        by = f"VerdictError: {type(self.task).__name__}.verify_all"
        self._answers.append((pending, _checked(given, by=by)))

    def _poll_processes(self) -> None:
        for done in self._processes.poll() if self._processes else ():
            self.together.heard(done.handle, result=done.result, error=done.error)
            if (asked := self._asked.pop(done.handle, None)) is not None:
                pending, failed = asked
                answer = done.result if done.error is None else failed(done.error)
                self._answers.append((pending, answer))

    def _poll_threads(self) -> None:
        for done in self._threads.poll() if self._threads else ():
            pending = self._calling.pop(done.handle, None)
            if pending is None:
                continue
            if done.error is None:
                pending.resolve(done.result)
            else:
                pending.fail(done.raised or RuntimeError(done.error))


def verify_safely(task: Task, prompt: Prompt, text: str) -> Verdict:
    """Scores a completion: a finite reward, or unscorable with the reason, never 0 for an error.

    All verdicts pass here. A reward is a real number of Python or numpy that is finite in single
    precision, or None; an error makes its verdict unscorable.
    """
    try:
        given: Any = task.verify(prompt, text=text)
    except (Exception, SystemExit) as error:
        return _unscorable(described(error))
    return _checked(given, by=f"VerdictError: {type(task).__name__}.verify")


def _checked(given: Any, *, by: str) -> Verdict:
    if not isinstance(given, Verdict):
        return _unscorable(f"{by} returned {shown(given)} ({type(given).__name__}), not a Verdict")
    if given.error is not None:
        return _unscorable(str(given.error))
    if given.reward is None:
        return Verdict(reward=None)
    reward = real(given.reward)
    if reward is None:
        kind = type(given.reward).__name__
        said = f"gave the reward {shown(given.reward)} ({kind}), not a finite number"
        return _unscorable(f"{by} {said}")
    try:
        scores = {str(name): real(score) for name, score in dict(given.scores).items()}
    except (TypeError, ValueError):
        scores = {"": None}
    if None in scores.values():
        return _unscorable(f"{by} gave the scores {shown(given.scores)}, not numbers by name")
    return Verdict(reward=reward, scores={n: s for n, s in scores.items() if s is not None})


def asked_again(groups: Sequence[Group], *, desk: Desk) -> int:
    """Scores answers again in reverse order; returns how many rewards differ or are missing.

    A verifier that is a function of prompt and text gives each the same. What a Generate part or
    its environment judged is left out, since that depends on more than the text.
    """
    found = [r for g in groups for r in g.rollouts if r.reward is not None]
    given = [r for r in reversed(found) if JUDGED not in r.notes]
    told = [
        desk.verify(r.prompt, text=r.text, tokens=r.tokens_T.tolist(), place=r.id) for r in given
    ]
    while desk.busy:
        desk.wait()
        desk.deliver()
    pairs = zip(given, (pending.result().reward for pending in told), strict=True)
    return sum(new is None or not isclose(r.reward or 0.0, new, abs_tol=1e-9) for r, new in pairs)


def _unscorable(error: str) -> Verdict:
    return Verdict(reward=None, error=shortened(error))
