"""The trampoline: order, errors, and that it waits for nothing else."""

import asyncio
from typing import Any

import pytest

from gfcr.errors import AWAITS, described
from gfcr.loop.coroutine import Pending, Run, gather
from tests.cases import over


async def waits(pending: Pending[int], *, log: list[Any], name: str) -> str:
    log.append(f"{name} begins")
    value = await pending
    log.append(f"{name} got {value}")
    return f"{name}{value}"


def test_a_coroutine_runs_to_its_first_wait_at_once_and_on_when_resolved() -> None:
    log: list[Any] = []
    pending: Pending[int] = Pending()
    run = Run(waits(pending, log=log, name="a"))
    assert log == ["a begins"] and not run.done
    pending.resolve(1)
    assert log == ["a begins", "a got 1"] and run.done and run.result() == "a1"


def test_gather_begins_all_and_keeps_the_order_of_its_arguments() -> None:
    log: list[Any] = []
    pendings: list[Pending[int]] = [Pending() for _ in range(3)]
    run = Run(gather(*(waits(p, log=log, name=n) for p, n in zip(pendings, "abc", strict=True))))
    assert log == ["a begins", "b begins", "c begins"]
    for index in (2, 0, 1):
        assert not run.done
        pendings[index].resolve(index)
    assert run.result() == ["a0", "b1", "c2"]
    assert Run(gather()).result() == []
    assert Run(gather(*pendings)).result() == [0, 1, 2]


def test_an_error_is_raised_where_it_is_awaited() -> None:
    async def catches(pending: Pending[int]) -> str:
        try:
            await pending
        except OSError as error:
            return str(error)
        return "no error"

    pending: Pending[int] = Pending()
    run = Run(catches(pending))
    pending.fail(OSError("gone"))
    assert run.result() == "gone"


def test_a_foreign_wait_is_refused() -> None:
    async def sleeps() -> None:
        await asyncio.sleep(1)

    async def yields() -> None:
        await Foreign()

    class Foreign:
        def __await__(self) -> Any:
            yield "something"

    with pytest.raises(TypeError, match=AWAITS.partition("(")[0]):
        Run(yields()).result()
    with pytest.raises(RuntimeError, match="no running event loop") as caught:
        Run(sleeps()).result()
    assert AWAITS in described(caught.value)


def test_it_runs_inside_a_running_event_loop() -> None:
    async def notebook() -> str:
        pending: Pending[int] = Pending()
        run = Run(waits(pending, log=[], name="a"))
        pending.resolve(3)
        return run.result()

    assert asyncio.run(notebook()) == "a3"


def test_a_cancelled_run_never_resumes() -> None:
    log: list[Any] = []
    pending: Pending[int] = Pending()

    async def cleans() -> None:
        try:
            await pending
        finally:
            log.append("closed")

    run = Run(cleans())
    run.cancel()
    assert log == ["closed"] and not run.done


def test_a_run_knows_whose_results_it_waited_for() -> None:
    first: Pending[int] = Pending(owner="a")
    none: Pending[int] = Pending()
    last: Pending[int] = Pending(owner="b")

    async def waits_for_all() -> int:
        return sum([await p for p in (first, none, last)])

    run = Run(waits_for_all())
    for number, pending in enumerate((first, none, last)):
        assert len(run.owners) == (0, 1, 1)[number] + (number != 1)
        pending.resolve(number)
    assert run.owners == ["a", "b"] and run.result() == 3 and run.owner is None


@over("error", [OSError("gone"), SystemExit(3)])
def test_what_a_coroutine_raises_is_its_result(error: BaseException) -> None:
    async def raises() -> None:
        raise error

    run = Run(raises())
    assert run.done and run.error is error
    with pytest.raises(type(error)):
        run.result()


def test_an_interrupt_is_nobody_s_result() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Run(interrupted())


def test_gather_tells_which_coroutines_it_began_and_waits_for_all() -> None:
    bad: Pending[int] = Pending()
    good: Pending[int] = Pending()
    branches: list[Run[Any]] = []
    own = waits(bad, log=[], name="a")
    run = Run(gather(own, good, branches=branches))
    assert len(branches) == 1 and not branches[0].done
    bad.fail(SystemExit(1))
    assert isinstance(branches[0].error, SystemExit) and not run.done
    good.resolve(1)
    with pytest.raises(SystemExit):
        run.result()


def test_callbacks_come_once_and_in_order() -> None:
    log: list[int] = []
    pending: Pending[None] = Pending()
    pending.when_done(lambda: log.append(1))
    pending.when_done(lambda: log.append(2))
    assert not log and not pending.done and pending.error is None
    pending.resolve(None)
    pending.when_done(lambda: log.append(3))
    assert log == [1, 2, 3] and pending.done
    with pytest.raises(AssertionError, match="resolved twice"):
        pending.fail(OSError())
    with pytest.raises(AssertionError, match="not resolved yet"):
        Pending[int]().result()


def test_what_is_gathered_is_closed_with_who_waits_for_it() -> None:
    log: list[str] = []
    never: Pending[int] = Pending()

    async def holds(name: str) -> None:
        try:
            await never
        finally:
            log.append(name)

    async def both() -> None:
        await gather(holds("a"), gather(holds("b"), holds("c")))

    run = Run(both())
    assert not run.done and not log
    run.cancel()
    assert sorted(log) == ["a", "b", "c"]
