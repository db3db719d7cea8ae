import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from gfcr.pool import Done, ProcessPool, ThreadPool


def add(a: int, b: int) -> int:
    return a + b


def hang() -> None:
    time.sleep(300)


def die() -> None:
    os._exit(3)


def fail() -> None:
    raise ValueError("no such thing")


def leave() -> None:
    sys.exit(4)


def unpicklable() -> Callable[[], None]:
    return lambda: None


class Refuses:
    """Pickles here, fails to unpickle there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return fail, ()


def drain(pool: ProcessPool | ThreadPool, *, num: int, within_s: float = 30.0) -> list[Done]:
    """Collects so many results, in the order the pool gave them."""
    found: list[Done] = []
    end = time.monotonic() + within_s
    while len(found) < num and time.monotonic() < end:
        pool.wait(1.0)
        found += pool.poll()
    return found


def test_a_hung_call_is_killed_and_the_next_ones_run() -> None:
    pool = ProcessPool(num_processes=1)
    hung = [pool.submit(hang, timeout_s=0.3) for _ in range(2)]
    last = pool.submit(add, 1, 2, timeout_s=10.0)
    done = {d.handle: d for d in drain(pool, num=3)}
    pool.close()
    assert all("timed out after 0.3 s" in (done[h].error or "") for h in hung)
    assert done[last] == Done(handle=last, result=3)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (fail, (), "ValueError: no such thing"),
        (die, (), "exit code 3"),
        (leave, (), "SystemExit: 4"),
        (unpicklable, (), "pickle"),
        (add, (Refuses(), 1), "no such thing"),
        (lambda: None, (), "pickle"),
    ],
)
def test_a_broken_call_is_an_error_of_its_own_and_spares_the_pool(
    function: Callable[..., Any], args: tuple[Any, ...], said: str
) -> None:
    pool = ProcessPool(num_processes=1)
    broken = pool.submit(function, *args, timeout_s=10.0)
    fine = pool.submit(add, 1, 2, timeout_s=10.0)
    done = {d.handle: d for d in drain(pool, num=2)}
    pool.close()
    assert done[broken].result is None
    assert said in (done[broken].error or "")
    assert done[fine].result == 3


def test_results_come_in_submission_order_among_the_finished() -> None:
    pool = ThreadPool(num_threads=4)
    handles = [pool.submit(time.sleep, s) for s in (0.15, 0.1, 0.05, 0.0)]
    time.sleep(0.4)
    done = pool.poll()
    pool.close()
    assert [d.handle for d in done] == handles


def test_a_result_is_handed_out_once() -> None:
    pool = ThreadPool()
    pool.submit(add, 1, 1)
    assert len(drain(pool, num=1)) == 1
    pool.wait(0.0)
    assert pool.poll() == []
    pool.close()


def test_an_exception_in_a_thread_is_an_error_result() -> None:
    pool = ThreadPool()
    handle = pool.submit(fail)
    assert drain(pool, num=1) == [Done(handle=handle, error="ValueError: no such thing")]
    pool.close()


def test_bytes_come_back_as_they_are() -> None:
    threads, processes = ThreadPool(), ProcessPool(num_processes=1)
    threads.submit(bytes, 3)
    processes.submit(bytes, 3, timeout_s=10.0)
    assert [d.result for d in drain(threads, num=1) + drain(processes, num=1)] == [bytes(3)] * 2
    threads.close()
    processes.close()


def test_closing_does_not_wait_for_what_hangs() -> None:
    pool, processes = ThreadPool(num_threads=1), ProcessPool(num_processes=1)
    pool.submit(time.sleep, 30.0)
    processes.submit(hang, timeout_s=60.0)
    time.sleep(0.3)
    began = time.monotonic()
    pool.close()
    processes.close()
    assert time.monotonic() - began < 10.0


def test_waiting_with_nothing_pending_returns_at_once() -> None:
    began = time.monotonic()
    ThreadPool().wait(5.0)
    assert time.monotonic() - began < 1.0
