"""Completions that are scored in one call, for rewards that compare them with one another."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

from gfcr.errors import described, shown
from gfcr.loop.coroutine import Pending
from gfcr.tasks.base import Asked, Task, Verdict
from gfcr.values.names import natural

if TYPE_CHECKING:
    from gfcr.loop.pool import ProcessPool


class Waiting(NamedTuple):
    """A completion that waits for its verdict."""

    place: str
    """The id of its rollout, or of what a part asks about its group."""
    asked: Asked
    pending: Pending[Verdict]


@dataclass(kw_only=True)
class _Sieve:
    """Finds those completions of a prompt that fail alone, too."""

    left: int
    """Completions not heard of yet."""
    good: list[Waiting] = field(default_factory=list[Waiting])


class _Call(NamedTuple):
    waiting: list[Waiting]
    sieve: _Sieve | None = None
    """Set where one completion is asked alone; its score is then of no use."""
    final: bool = False
    """Whether those that fail alone are left out already."""


def verify_all(task: Task, asked: Sequence[Asked]) -> list[Any]:
    """Asks a task for the verdicts of completions.

    Raises:
        ValueError: there is not one for each; and whatever the task raises.
    """
    given: Any = task.verify_all(asked)
    if not isinstance(given, Sequence) or len(cast("Sequence[Any]", given)) != len(asked):
        by = f"{type(task).__name__}.verify_all"
        raise ValueError(f"{by} returned {shown(cast(Any, given))} for {len(asked)} completions")
    return list(cast("Sequence[Any]", given))


@final
class Together:
    """Scores what waits in one call; where that fails, it is found out for whom.

    Then each prompt's completions are asked for together, and of those that fail again each alone:
    one that fails alone is unscorable, and the others are scored without it.
    """

    def __init__(
        self,
        task: Task,
        *,
        pool: "Callable[[], ProcessPool]",
        answer: Callable[[Pending[Verdict], Any], None],
        failed: Callable[[str], Verdict],
    ) -> None:
        """Begins with nothing that waits.

        Args:
            task: the task that scores.
            pool: opens the processes of a slow task.
            answer: takes what the task said of a completion.
            failed: makes the verdict of an error.
        """
        self._task, self._pool, self._answer, self._failed = task, pool, answer, failed
        self._waiting: list[Waiting] = []
        self._calls: dict[int, _Call] = {}

    @property
    def busy(self) -> bool:
        """Returns whether completions wait, to be asked for or for a call in a process to end."""
        return bool(self._waiting or self._calls)

    def add(self, waiting: Waiting) -> None:
        """Keeps a completion until all are asked for."""
        self._waiting.append(waiting)

    def ask(self, *, of: str = "") -> bool:
        """Asks for what waits, in the order of groups and slots; tells whether anything did.

        Args:
            of: what the ids begin with of those that are asked for.
        """
        waiting = _sorted(each for each in self._waiting if each.place.startswith(of))
        self._waiting = [each for each in self._waiting if not each.place.startswith(of)]
        if waiting:
            self._ask(_Call(waiting))
        return bool(waiting)

    def heard(self, handle: int, *, result: Any, error: str | None) -> None:
        """Takes the outcome of a call in a process, if it is one of these."""
        call = self._calls.pop(handle, None)
        if call is not None:
            self._ended(call, result=result, error=error)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Leaves what waits where it is: nothing that comes inside is compared with it."""
        waiting, self._waiting = self._waiting, []
        yield
        self._waiting += waiting

    def forget(self) -> None:
        """Drops what waits and what runs."""
        self._waiting.clear()
        self._calls.clear()

    def _ask(self, call: _Call) -> None:
        task, asked = self._task, [each.asked for each in call.waiting]
        if task.slow:
            # Each of those left has taken less than the time of one, so that none of them hangs.
            seconds = task.timeout_s * (len(asked) if call.final else 1)
            handle = self._pool().submit(verify_all, task, asked, timeout_s=seconds)
            self._calls[handle] = call
            return
        try:
            result, error = verify_all(task, asked), None
        except (Exception, SystemExit) as raised:
            result, error = None, described(raised)
        self._ended(call, result=result, error=error)

    def _ended(self, call: _Call, *, result: Any, error: str | None) -> None:
        if call.sieve is not None:
            self._sift(call.sieve, call.waiting[0], error=error)
        elif error is None:
            for each, verdict in zip(call.waiting, result, strict=True):
                self._answer(each.pending, verdict)
        else:
            self._find_out(call, error=error)

    def _find_out(self, call: _Call, *, error: str) -> None:
        by_prompt: dict[str, list[Waiting]] = {}
        for each in call.waiting:
            by_prompt.setdefault(each.asked.prompt.id, []).append(each)
        if len(by_prompt) > 1:
            for some in by_prompt.values():
                self._ask(_Call(some))
        elif call.final or len(call.waiting) == 1:
            for each in call.waiting:
                self._answer(each.pending, self._failed(error))
        else:
            sieve = _Sieve(left=len(call.waiting))
            for each in call.waiting:
                self._ask(_Call([each], sieve))

    def _sift(self, sieve: _Sieve, each: Waiting, *, error: str | None) -> None:
        sieve.left -= 1
        if error is None:
            sieve.good.append(each)
        else:
            self._answer(each.pending, self._failed(error))
        if not sieve.left and sieve.good:
            self._ask(_Call(_sorted(sieve.good), final=True))


def _sorted(waiting: Iterable[Waiting]) -> list[Waiting]:
    return sorted(waiting, key=lambda each: natural(each.place))
