"""A deterministic trampoline for `Generate.run`.

Not asyncio: the pipeline must step an in-process engine between turns, in the caller's thread,
also under a notebook's running event loop, and resume coroutines in a reproducible order.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from gfcr.errors import AWAITS

T = TypeVar("T")


class Pending(Generic[T]):
    """A result that comes later. Awaiting it hands control back to the loop."""

    def __init__(self, *, owner: object = None) -> None:
        self.done = False
        self.owner = owner
        """The object whose result it is."""
        self.error: BaseException | None = None
        """The error it failed with; None where it has not failed."""
        self._result: Any = None
        self._waiters: list[Callable[[], None]] = []

    def resolve(self, result: T) -> None:
        """Sets the result and resumes all waiters."""
        self._finish(result, None)

    def fail(self, error: BaseException) -> None:
        """Raises `error` in all waiters."""
        self._finish(None, error)

    def result(self) -> T:
        """Returns the result, or raises the error."""
        assert self.done, "not resolved yet"
        if self.error is not None:
            raise self.error
        return self._result

    def when_done(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once this is resolved, or at once if it is already."""
        if self.done:
            callback()
        else:
            self._waiters.append(callback)

    def __await__(self) -> Generator["Pending[T]", None, T]:
        if not self.done:
            yield self
        return self.result()

    def _finish(self, result: Any, error: BaseException | None) -> None:
        assert not self.done, "resolved twice"
        # A waiter that is resumed below asks for the result at once.
        self.done, self._result, self.error = True, result, error
        waiters, self._waiters = self._waiters, []
        for resume in waiters:
            resume()


class Run(Pending[T]):
    """A coroutine driven to its end by the pendings it awaits."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self.owners: list[Any] = []
        """The owners of the results it has waited for."""
        self._coroutine = coroutine
        self._advance()

    def cancel(self) -> None:
        """Closes the coroutine; no result is set, and its waiters are never resumed."""
        self._coroutine.close()

    def _advance(self) -> None:
        try:
            pending = self._coroutine.send(None)
        except StopIteration as end:
            self.resolve(end.value)
        # A part that calls `exit` fails like any other; it must not end the run.
        except (Exception, SystemExit) as error:
            self.fail(error)
        else:
            if isinstance(pending, Pending):
                self.owners += [pending.owner] if pending.owner is not None else []
                pending.when_done(self._advance)  # pyright: ignore[reportUnknownMemberType]
            else:
                self._coroutine.close()
                self.fail(TypeError(AWAITS))


async def gather(*waits: Awaitable[Any], branches: list[Run[Any]] | None = None) -> list[Any]:
    """Starts all, waits for all, and returns the results in the order of the arguments.

    One that raises does not stop the others: the first error is raised when all are done. If the
    caller is stopped, they are too. The coroutines among them are added to `branches`.
    """
    runs = [w if isinstance(w, Pending) else Run(_as_coroutine(w)) for w in waits]
    if branches is not None:
        branches += [run for run in runs if isinstance(run, Run)]
    try:
        for run in runs:
            with suppress(Exception, SystemExit):
                await run
    except GeneratorExit:
        for run in (run for run in runs if isinstance(run, Run)):
            run.cancel()
        raise
    return [run.result() for run in runs]


async def _as_coroutine(wait: Awaitable[T]) -> T:
    return await wait
