"""Calls in processes that are bounded, killed when they hang, and leave nothing behind."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gfcr import registry
from gfcr.loop import pool as pools
from gfcr.loop.pool import Done, ProcessPool, ThreadPool
from gfcr.loop.scoring import verify_safely
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from tests.cases import over


def add(a: int, b: int) -> int:
    return a + b


HERE: list[str] = []
"""What only the process that runs the tests writes to."""


def noted() -> list[str]:
    return HERE


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


def hog() -> int:
    return len(bytearray(8 << 30))


def hog_in_a_child() -> int:
    return subprocess.run([sys.executable, "-c", "bytearray(8 << 30)"], check=False).returncode


def shout() -> None:
    raise ValueError("y" * 10_000_000)


def too_much() -> bytes:
    return bytes(10_000_000)


def leave_behind(file: str, how: str) -> str:
    """Starts a process that outlives the call unless somebody kills it; then ends as told."""
    pid = os.fork()
    if not pid:
        os.setsid()
        if os.fork():
            os._exit(0)
        Path(file).write_text(str(os.getpid()))
        time.sleep(300)
    while not Path(file).exists():
        time.sleep(0.01)
    if how == "returns":
        return "done"
    return {"dies": die, "ignores": ignore}[how]() or ""


def ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    hang()


def come_back_twice() -> int:
    return os.fork() and 7


def bomb() -> None:
    while True:
        with contextlib.suppress(OSError):
            os.fork()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def called(function: Callable[..., Any], *args: Any, timeout_s: float = 30.0) -> Done:
    """The outcome of one call in a warm pool that is closed after it; the next one must do."""
    pool = ProcessPool(num_processes=1, memory_gib=1.0)
    try:
        pool.submit(add, 1, 1, timeout_s=60.0)
        assert len(drain(pool, num=1, within_s=60.0)) == 1
        pool.submit(function, *args, timeout_s=timeout_s)
        (done,) = drain(pool, num=1, within_s=60.0)
        pool.submit(add, 1, 2, timeout_s=30.0)
        assert [d.result for d in drain(pool, num=1, within_s=60.0)] == [3]
    finally:
        pool.close()
    return done


@pytest.mark.whole
@over(
    ("function", "said"),
    [
        (hog, "MemoryError: more than 1 GiB of data"),
        (shout, r"ValueError: y+ \[\.\.\. 9,998,0\d\d characters left out \.\.\.\] y+$"),
        (too_much, "ValueError: a result of 10,000,0.. bytes"),
        (bomb, "it started more than 64 processes and was killed"),
    ],
)
def test_what_a_call_may_use_is_bounded(function: Callable[..., Any], said: str) -> None:
    done = called(function)
    assert done.result is None and re.match(said, str(done.error)), done.error
    assert len(str(done.error)) < 2100


def test_the_processes_of_a_call_have_its_limits() -> None:
    assert called(hog_in_a_child).result == 1


@pytest.mark.slow
@over(
    ("how", "said"),
    [("returns", None), ("dies", "exit code 3"), ("ignores", "timed out")],
)
def test_nothing_that_a_call_started_outlives_it(
    tmp_path: Path, how: str, said: str | None
) -> None:
    file = tmp_path / "pid"
    done = called(leave_behind, str(file), how, timeout_s=1.5)
    assert (done.error is None) if said is None else (said in str(done.error))
    assert not alive(int(file.read_text()))


def test_a_fork_that_returns_from_the_call_too_answers_nothing() -> None:
    assert called(come_back_twice).result == 7


def test_children_that_are_killed_from_outside_cost_one_call_and_leave_nothing() -> None:
    assert called(os.kill, 0, signal.SIGKILL).error == "its process died (signal 9)"


LOOSE = """
from dataclasses import dataclass
from gfcr.tasks.base import Problems, Task, Verdict

@dataclass(kw_only=True)
class Judge(Task):
    slow = True
    share: float = 0.25

    def problems(self, codec):
        return Problems(train=(), heldout=())

    def verify(self, prompt, *, text):
        return Verdict(reward=self.share * len(text))
"""


def test_a_slow_task_of_a_loose_file_scores(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(LOOSE)
    task = registry.build("task", {"name": f"{tmp_path}/judge.py:Judge", "share": 0.5})
    done = called(verify_safely, task, make.prompt(), "four")
    assert (done.result, done.error) == (Verdict(reward=2.0), None)


def drain(pool: ProcessPool | ThreadPool, *, num: int, within_s: float = 30.0) -> list[Done]:
    """Collects so many results, in the order the pool gave them."""
    found: list[Done] = []
    end = time.monotonic() + within_s
    while len(found) < num and time.monotonic() < end:
        pool.wait(1.0)
        found += pool.poll()
    return found


def test_a_call_runs_in_no_fork_of_the_caller() -> None:
    HERE.append("of the caller")
    assert called(noted).result == []


@pytest.mark.slow
def test_a_hung_call_is_killed_and_the_next_ones_run() -> None:
    pool = ProcessPool(num_processes=1)
    hung = [pool.submit(hang, timeout_s=0.3) for _ in range(2)]
    last = pool.submit(add, 1, 2, timeout_s=10.0)
    done = {d.handle: d for d in drain(pool, num=3)}
    pool.close()
    assert all("timed out after 0.3 s" in (done[h].error or "") for h in hung)
    assert done[last] == Done(handle=last, result=3)


@pytest.mark.slow
def test_a_broken_call_is_an_error_of_its_own_and_spares_the_pool() -> None:
    broken: list[tuple[Any, tuple[Any, ...], str]] = [
        (fail, (), "ValueError: no such thing"),
        (die, (), "exit code 3"),
        (leave, (), "SystemExit: 4"),
        (unpicklable, (), "pickle"),
        (add, (Refuses(), 1), "no such thing"),
    ]
    pool = ProcessPool(num_processes=1)
    for function, args, _ in broken:
        pool.submit(function, *args, timeout_s=10.0)
        pool.submit(add, 1, 2, timeout_s=10.0)
    done = sorted(drain(pool, num=2 * len(broken)), key=lambda one: one.handle)
    pool.close()
    for one, (_, _, said) in zip(done[::2], broken, strict=True):
        assert one.result is None and said in str(one.error)
    assert [one.result for one in done[1::2]] == [3] * len(broken)


def test_bytes_come_back_as_they_are() -> None:
    threads, processes = ThreadPool(), ProcessPool(num_processes=1)
    threads.submit(bytes, 3)
    processes.submit(bytes, 3, timeout_s=10.0)
    assert [d.result for d in drain(threads, num=1) + drain(processes, num=1)] == [bytes(3)] * 2
    threads.close()
    processes.close()


@pytest.mark.slow
def test_closing_does_not_wait_for_what_hangs() -> None:
    pool, processes = ThreadPool(num_threads=1), ProcessPool(num_processes=1)
    pool.submit(time.sleep, 30.0)
    processes.submit(hang, timeout_s=60.0)
    time.sleep(0.3)
    began = time.monotonic()
    pool.close()
    processes.close()
    assert time.monotonic() - began < 10.0


SLOW = """
import time

time.sleep(1.0)


def first(seconds):
    time.sleep(seconds)
    return "done"
"""


@pytest.mark.slow
def test_importing_a_call_s_code_takes_nothing_of_its_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    function = registry.load_object(f"{tmp_path}/slow.py:first")
    pool = ProcessPool(num_processes=1)
    handles = [pool.submit(function, s, timeout_s=0.5) for s in (0.0, 300.0, 0.0, 0.0)]
    done = {d.handle: d for d in drain(pool, num=4)}
    pool.close()
    said = [done[h].error or done[h].result for h in handles]
    assert said == ["done", "timed out after 0.5 s and was killed", "done", "done"]


SLEEPS_ELSEWHERE = """
import os, time

if os.getpid() != {}:
    time.sleep(300)

def f():
    return 1
"""


@pytest.mark.slow
def test_code_that_never_ends_importing_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once.py").write_text(SLEEPS_ELSEWHERE.format(os.getpid()))
    function = registry.load_object(f"{tmp_path}/once.py:f")
    monkeypatch.setattr(pools, "_IMPORTING_S", 1.0)
    pool = ProcessPool(num_processes=1)
    pool.submit(function, timeout_s=0.5)
    pool.submit(add, 1, 2, timeout_s=10.0)
    told = {d.handle: d.error or d.result for d in drain(pool, num=2)}
    pool.close()
    assert told == {1: "timed out after 1.5 s and was killed", 2: 3}
