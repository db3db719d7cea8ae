"""Slow work beside the event loop: processes that can be killed, and threads.

Nothing here raises into the loop: a function that fails, hangs or takes its process down becomes a
`Done` with an `error`.
"""

import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any, Final, final

import pebble

from gfcr.errors import ConfigError, described
from gfcr.loop import confined

_CLOSING_S: Final = 2.0
"""Seconds that `close` waits for running calls to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished call."""

    handle: int
    """The handle that `submit` returned."""
    result: Any = None
    error: str | None = None
    """Why there is no result; None where there is one."""
    raised: ConfigError | None = None
    """The ConfigError that a thread raised: the user has to change something."""


@final
class ProcessPool:
    """Runs picklable functions in processes; one that takes too long is killed and replaced.

    Processes come from a fork server, never from a fork of the caller, whose engine has threads and
    locks that do not survive a fork. As always with such processes, a script that uses one keeps
    its work below `if __name__ == "__main__":`. What a call starts ends with it, and its memory,
    processes and result are bounded: see `gfcr.loop.confined`.
    """

    def __init__(self, *, num_processes: int = 2, memory_gib: float = 4.0) -> None:
        """Makes the pool; processes start with the first call.

        Args:
            num_processes: calls at a time.
            memory_gib: data that a call, and every process it forks, may have.
        """
        context = multiprocessing.get_context("forkserver")
        self._pool = pebble.ProcessPool(
            max_workers=num_processes, context=context, initializer=confined.keep
        )
        self._memory = int(memory_gib * 2**30)
        self._queue = _Queue(decode=pickle.loads)

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> int:
        """Queues a call and returns its handle; its time starts when a process takes it up."""
        try:
            call = confined.pack(function, *args)
        except Exception as error:  # what an argument's own pickling raises is not known
            return self._queue.add(_failed(error))
        future: Any = self._pool.schedule(
            confined.run, args=(call, self._memory), timeout=timeout_s
        )
        return self._queue.add(future, timeout_s=timeout_s)

    def poll(self) -> list[Done]:
        """Takes the calls finished since the last poll, in the order they were submitted."""
        return self._queue.poll()

    def wait(self, seconds: float) -> None:
        """Blocks until a call is finished, at most so long; returns at once with none pending."""
        self._queue.wait(seconds)

    def close(self) -> None:
        """Kills what is running and drops what is not."""
        _close(self._pool)


@final
class ThreadPool:
    """Runs functions in threads: tools and judges that wait for others.

    A thread cannot be killed: give such functions time-outs of their own.
    """

    def __init__(self, *, num_threads: int = 8) -> None:
        """Makes the pool; its threads do not hold up the interpreter's exit."""
        self._pool = pebble.ThreadPool(max_workers=num_threads)
        self._queue = _Queue(decode=lambda outcome: outcome)

    def submit(self, function: Callable[..., Any], *args: Any) -> int:
        """Queues a call and returns its handle."""
        return self._queue.add(self._pool.schedule(_call, args=(function, *args)))

    def poll(self) -> list[Done]:
        """Takes the calls finished since the last poll, in the order they were submitted."""
        return self._queue.poll()

    def wait(self, seconds: float) -> None:
        """Blocks until a call is finished, at most so long; returns at once with none pending."""
        self._queue.wait(seconds)

    def close(self) -> None:
        """Drops what is queued; what is running is left to end by itself."""
        _close(self._pool)


class _Queue:
    """Keeps futures by handle, in the order they were submitted."""

    def __init__(self, *, decode: Callable[[Any], Any]) -> None:
        self._decode = decode
        self._pending: dict[int, tuple[Future[Any], float]] = {}
        self._count = 0

    def add(self, future: Future[Any], *, timeout_s: float = 0.0) -> int:
        self._count += 1
        self._pending[self._count] = (future, timeout_s)
        return self._count

    def poll(self) -> list[Done]:
        ready = {h: entry for h, entry in self._pending.items() if entry[0].done()}
        for handle in ready:
            del self._pending[handle]
        return [
            _done(h, future, timeout_s=timeout_s, decode=self._decode)
            for h, (future, timeout_s) in ready.items()
        ]

    def wait(self, seconds: float) -> None:
        futures = [future for future, _ in self._pending.values()]
        wait(futures, timeout=seconds, return_when=FIRST_COMPLETED)


def _call(function: Callable[..., Any], *args: Any) -> tuple[Any, str | None]:
    try:
        return function(*args), None
    except ConfigError:
        raise
    except BaseException as error:
        return None, described(error)


def _done(
    handle: int, future: Future[Any], *, timeout_s: float, decode: Callable[[Any], Any]
) -> Done:
    try:
        result, error = decode(future.result())
        return Done(handle=handle, result=result, error=error)
    except CancelledError:
        return Done(handle=handle, error="cancelled: the pool was closed")
    except TimeoutError:
        return Done(handle=handle, error=f"timed out after {timeout_s:g} s and was killed")
    except pebble.ProcessExpired as error:
        return Done(handle=handle, error=f"its process died (exit code {error.exitcode})")
    except ConfigError as error:
        return Done(handle=handle, error=described(error), raised=error)
    except BaseException as error:
        return Done(handle=handle, error=described(error))


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _close(pool: "pebble.ProcessPool | pebble.ThreadPool") -> None:
    pool.stop()
    # `join` waits for running threads without bound, and one of them may hang.
    joining = threading.Thread(target=pool.join, daemon=True)
    joining.start()
    joining.join(timeout=_CLOSING_S)
