"""Calls in threads, and what becomes of a call wherever it ran."""

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pebble

from gfcr.errors import ConfigError
from gfcr.loop import pool as pools
from gfcr.loop.pool import Done, ThreadPool
from tests.cases import over
from tests.unit.loop.test_pool import add, drain


def test_results_come_in_submission_order_among_the_finished() -> None:
    pool = ThreadPool(num_threads=4)
    handles = [pool.submit(time.sleep, s) for s in (0.15, 0.1, 0.05, 0.0)]
    for future, _ in pool._pending.values():
        future.result(timeout=30)
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


@over(("error", "said"), [(ValueError("x"), "ValueError: x"), (SystemExit(4), "SystemExit: 4")])
def test_an_exception_in_a_thread_is_an_error_result(error: BaseException, said: str) -> None:
    def breaks() -> None:
        raise error

    pool = ThreadPool(num_threads=1)
    handle = pool.submit(breaks)
    assert drain(pool, num=1) == [Done(handle=handle, error=said)]
    pool.close()


def test_what_is_said_to_the_user_comes_back_as_it_was_raised() -> None:
    pool, said = ThreadPool(), ConfigError("give a folder")

    def refuse() -> None:
        raise said

    pool.submit(refuse)
    (done,) = drain(pool, num=1)
    assert done.raised is said and done.error == "ConfigError: give a folder"
    pool.close()


def test_waiting_with_nothing_pending_returns_at_once() -> None:
    began = time.monotonic()
    ThreadPool().wait(5.0)
    assert time.monotonic() - began < 1.0


def test_waiting_ends_with_the_first_that_is_done_or_the_time() -> None:
    pool, go = ThreadPool(num_threads=2), threading.Event()
    slow, fast = pool.submit(go.wait, 60.0), pool.submit(add, 1, 2)
    assert (slow, fast) == (1, 2)
    began = time.monotonic()
    pool.wait(30.0)
    assert pool.poll() == [Done(handle=fast, result=3)]
    pool.wait(0.01)
    assert pool.poll() == [] and time.monotonic() - began < 20
    go.set()
    assert drain(pool, num=1) == [Done(handle=slow, result=True)]
    pool.close()


def test_closing_drops_what_is_queued_and_waits_for_what_runs_only_shortly() -> None:
    pool, begun, ran = ThreadPool(num_threads=1), threading.Event(), list[int]()

    def runs() -> None:
        begun.set()
        time.sleep(0.1)
        ran.append(1)

    pool.submit(runs)
    assert begun.wait(30)
    pool.submit(ran.append, 2)
    pool.close()
    assert ran == [1]


ENDS: list[tuple[Any, Any, str | None]] = [
    ((3, None), 3, None),
    ((None, "ValueError: x"), None, "ValueError: x"),
    (TimeoutError(), None, "timed out after 2.5 s and was killed"),
    (pebble.ProcessExpired("gone", 3), None, "its process died (exit code 3)"),
    (OSError("gone"), None, "OSError: gone"),
    (SystemExit(3), None, "SystemExit: 3"),
]


@over(("end", "result", "error"), ENDS)
def test_a_call_ends_with_a_result_or_the_words_of_its_end(
    end: Any, result: Any, error: str | None
) -> None:
    future: Future[Any] = Future()
    if isinstance(end, BaseException):
        future.set_exception(end)
    else:
        future.set_result(end)
    queue = pools._Pool(None, decode=lambda outcome: outcome)
    assert queue._add(future, most_s=2.5) == 1
    assert queue.poll() == [Done(handle=1, result=result, error=error)] and queue.poll() == []


def test_what_was_cancelled_says_that_the_pool_was_closed() -> None:
    future: Future[Any] = Future()
    future.cancel()
    queue = pools._Pool(None, decode=lambda outcome: outcome)
    queue._add(future)
    assert queue.poll() == [Done(handle=1, error="cancelled: the pool was closed")]


def test_what_cannot_be_read_is_an_error() -> None:
    def unreadable(outcome: Any) -> Any:
        raise EOFError("half of it")

    future: Future[Any] = Future()
    future.set_result(b"")
    queue = pools._Pool(None, decode=unreadable)
    queue._add(future)
    assert queue.poll() == [Done(handle=1, error="EOFError: half of it")]


def test_a_call_that_cannot_be_packed_is_an_error_of_its_own() -> None:
    """Nothing is sent to a process, so none is started."""
    pool = pools.ProcessPool(num_processes=1)
    handle = pool.submit(add, lambda: 0, SimpleNamespace(), timeout_s=1.0)
    (done,) = pool.poll()
    assert done.handle == handle and "lambda" in str(done.error)
    pool.close()
