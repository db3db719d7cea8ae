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
_IMPORTING_S: Final = 60.0
"""Seconds that a process may take to import a call's code, beside the call's own."""


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


class _Pool:
    """A pool with the calls that it was given, by handle."""

    def __init__(self, pool: Any, *, decode: Callable[[Any], Any]) -> None:
        self._pool, self._decode = pool, decode
        self._pending: dict[int, tuple[Future[Any], float]] = {}
        self._count = 0

    def poll(self) -> list[Done]:
        """Takes the calls finished since the last poll, in the order they were submitted."""
        ready = {h: entry for h, entry in self._pending.items() if entry[0].done()}
        for handle in ready:
            del self._pending[handle]
        return [
            _done(h, future, most_s=most_s, decode=self._decode)
            for h, (future, most_s) in ready.items()
        ]

    def wait(self, seconds: float) -> None:
        """Blocks until a call is finished, at most so long; returns at once with none pending."""
        futures = [future for future, _ in self._pending.values()]
        wait(futures, timeout=seconds, return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Drops what is queued and kills processes; a thread that runs is left to end by itself."""
        self._pool.stop()
        # `join` waits for running threads without bound, and one of them may hang.
        joining = threading.Thread(target=self._pool.join, daemon=True)
        joining.start()
        joining.join(timeout=_CLOSING_S)

    def _add(self, future: Future[Any], *, most_s: float = 0.0) -> int:
        self._count += 1
        self._pending[self._count] = (future, most_s)
        return self._count


@final
class ProcessPool(_Pool):
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
        pool = pebble.ProcessPool(num_processes, context=context, initializer=confined.keep)
        super().__init__(pool, decode=pickle.loads)
        self._memory = int(memory_gib * 2**30)

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> int:
        """Queues a call and returns its handle; its time starts when its code is imported."""
        future, most_s = Future[Any](), timeout_s + _IMPORTING_S
        try:
            told = (confined.pack(function, *args), self._memory, timeout_s)
            future = self._pool.schedule(confined.run, args=told, timeout=most_s)
        except Exception as error:  # what an argument's own pickling raises is not known
            future.set_exception(error)
        return self._add(future, most_s=most_s)


@final
class ThreadPool(_Pool):
    """Runs functions in threads: tools and judges that wait for others.

    A thread cannot be killed: give such functions time-outs of their own.
    """

    def __init__(self, *, num_threads: int = 8) -> None:
        """Makes the pool; its threads do not hold up the interpreter's exit."""
        super().__init__(pebble.ThreadPool(num_threads), decode=lambda outcome: outcome)

    def submit(self, function: Callable[..., Any], *args: Any) -> int:
        """Queues a call and returns its handle."""
        return self._add(self._pool.schedule(_call, args=(function, *args)))


def _call(function: Callable[..., Any], *args: Any) -> tuple[Any, str | None]:
    try:
        return function(*args), None
    except ConfigError:
        raise
    except BaseException as error:
        return None, described(error)


def _done(handle: int, future: Future[Any], *, most_s: float, decode: Callable[[Any], Any]) -> Done:
    try:
        result, error = decode(future.result())
        return Done(handle=handle, result=result, error=error)
    except CancelledError:
        return Done(handle=handle, error="cancelled: the pool was closed")
    except TimeoutError:
        return Done(handle=handle, error=f"timed out after {most_s:g} s and was killed")
    except pebble.ProcessExpired as error:
        return Done(handle=handle, error=f"its process died (exit code {error.exitcode})")
    except BaseException as error:
        raised = error if isinstance(error, ConfigError) else None
        return Done(handle=handle, error=described(error), raised=raised)
