"""Verification beside the event loop: fast verifiers at once, slow ones in killable processes."""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gfcr.coroutine import Pending
from gfcr.errors import described, shortened, shown
from gfcr.guard import real
from gfcr.tasks.base import Task, Verdict
from gfcr.types import Prompt

if TYPE_CHECKING:
    from gfcr.pool import ProcessPool, ThreadPool


class Desk:
    """Runs the slow work of a run and hands results back to the loop, in a fixed order.

    Verifiers go to processes that can be killed; tools and judges (`Session.call`) to threads.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._verdicts: deque[tuple[str, Verdict]] = deque()
        self._processes: ProcessPool | None = None
        self._threads: ThreadPool | None = None
        self._verifying: dict[int, str] = {}
        self._calling: dict[int, Pending[Any]] = {}
        self.verifier_calls = 0
        self.waited_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether results are outstanding."""
        return bool(self._verdicts or self._verifying or self._calling)

    def verify(self, key: str, *, prompt: Prompt, text: str) -> None:
        """Scores a completion; the verdict comes from `verdicts`."""
        self.verifier_calls += 1
        if not self._task.slow:
            self._verdicts.append((key, verify_safely(self._task, prompt, text)))
            return
        from gfcr.pool import ProcessPool

        self._processes = self._processes or ProcessPool(memory_gib=self._task.memory_gib)
        handle = self._processes.submit(
            verify_safely, self._task, prompt, text, timeout_s=self._task.timeout_s
        )
        self._verifying[handle] = key

    def call(self, function: Callable[..., Any], *args: Any) -> Pending[Any]:
        """Runs `function(*args)` in a thread."""
        from gfcr.pool import ThreadPool

        self._threads = self._threads or ThreadPool()
        pending: Pending[Any] = Pending()
        self._calling[self._threads.submit(function, *args)] = pending
        return pending

    def verdicts(self) -> list[tuple[str, Verdict]]:
        """Takes the verdicts that are in; also resumes whoever waited for a finished call."""
        self._poll_threads()
        self._poll_processes()
        taken = list(self._verdicts)
        self._verdicts.clear()
        return taken

    def wait(self, seconds: float = 0.05) -> None:
        """Blocks shortly for outstanding results; call when the engine has nothing to do."""
        began = time.perf_counter()
        if self._calling and self._threads:
            self._threads.wait(seconds)
        elif self._verifying and self._processes:
            self._processes.wait(seconds)
        self.waited_s += time.perf_counter() - began

    def forget(self) -> None:
        """Drops outstanding work: the batch it was for is over."""
        self._verdicts.clear()
        self._verifying.clear()
        self._calling.clear()

    def close(self) -> None:
        """Stops the pools."""
        for pool in (self._processes, self._threads):
            if pool is not None:
                pool.close()
        self._processes = self._threads = None

    def _poll_processes(self) -> None:
        for done in self._processes.poll() if self._processes else ():
            key = self._verifying.pop(done.handle, None)
            if key is not None:
                verdict = done.result if done.error is None else _unscorable(done.error)
                self._verdicts.append((key, verdict))

    def _poll_threads(self) -> None:
        for done in self._threads.poll() if self._threads else ():
            pending = self._calling.pop(done.handle, None)
            if pending is None:
                continue
            if done.error is None:
                pending.resolve(done.result)
            else:
                pending.fail(RuntimeError(done.error))


def verify_safely(task: Task, prompt: Prompt, text: str) -> Verdict:
    """Scores a completion: a finite reward, or unscorable with the reason, and never 0 for that.

    The one gate for verdicts, wherever they are asked for. A reward is a real number of Python or
    numpy that is finite in single precision, or None; an error makes its verdict unscorable.
    """
    try:
        given: Any = task.verify(prompt, text=text)
    except (Exception, SystemExit) as error:
        return _unscorable(described(error))
    by = f"VerdictError: {type(task).__name__}.verify"
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
    return Verdict(reward=reward)


def _unscorable(error: str) -> Verdict:
    return Verdict(reward=None, error=shortened(error))
