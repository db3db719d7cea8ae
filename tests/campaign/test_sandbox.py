"""Hostile programs in the sandbox: none gets out, none is believed, each ends in time.

By default one of each kind; all of them with `--whole`.
"""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gfcr.sandbox.box import Box, why_not
from gfcr.sandbox.exam import examine
from gfcr.sandbox.spec import Limits
from tests.campaign.forged import FORGED, TESTS
from tests.campaign.hostile import programs
from tests.sample import sample

HERE = Path("/nowhere/canary")
NAMES = [name for name, _ in programs(canary=HERE, port=1, parent=1)]
MARK = "canary-of-the-sandbox"
LIMITS = Limits(seconds=1.0, memory_mib=256)
ENOUGH_S = 30.0
"""On a machine with other work; alone a program takes its second and a little."""

FEW = [
    *("endless forks", "endless memory", "endless output", "deaf family", "daemon without pipes"),
    *("read 0", "write 0", "symbolic link 0", "processes seen 1", "signal 0", "connect 0"),
    *("descriptors 0", "closes its output"),
]

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")


class Listener:
    """Counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.came: list[object] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                self.came.append(self._socket.accept()[1])
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outside") / "canary"
    path.write_text(MARK)
    path.chmod(0o666)
    path.parent.chmod(0o777)
    return path


def below() -> set[int]:
    """Processes that this one and its children started."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for file in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                new = {*map(int, file.read_text().split())} - found
            except OSError:
                continue
            found |= new
            waiting += new
    return found


@pytest.mark.parametrize("name", sample(NAMES, always=FEW))
def test_no_program_gets_out(
    name: str, canary: Path, listener: Listener, tried: Callable[..., None]
) -> None:
    source = dict(programs(canary=canary, port=listener.port, parent=os.getpid()))[name]
    state, before, began = canary.stat(), below(), time.monotonic()
    with Box(source, limits=LIMITS) as box:
        outcome = box.finish()
    took = time.monotonic() - began
    now = canary.stat()
    same = [(s.st_mode, s.st_nlink, s.st_mtime_ns, s.st_uid) for s in (state, now)]
    fell = [
        what
        for what, is_so in {
            "the canary changed": canary.read_text() != MARK or same[0] != same[1],
            "the canary was read": MARK.encode() in outcome.output + outcome.errors,
            "somebody connected": bool(listener.came),
            "a process is left": bool(below() - before),
            "it took too long": took > ENOUGH_S,
            "a password was read": b"root:" in outcome.output,
            "too much was kept": len(outcome.output) > 2 << 20,
        }.items()
        if is_so
    ]
    tried("sandbox", what=f"hostile program: {name}", cases=1, fell=len(fell))
    assert not fell, (fell, outcome)
    assert outcome.ended in ("exit", "timeout", "output")


def test_without_a_sandbox_the_canary_and_the_listener_tell(tmp_path: Path) -> None:
    path, listening = tmp_path / "canary", Listener()
    path.write_text(MARK)
    every = dict(programs(canary=path, port=listening.port, parent=os.getpid()))
    for name in ("write 0", "connect 0"):
        subprocess.run([sys.executable, "-c", every[name]], check=True)
    assert path.read_text() == "x"
    limit = time.monotonic() + 10
    while not listening.came and time.monotonic() < limit:
        time.sleep(0.01)
    listening.close()
    assert listening.came


def test_there_are_a_hundred_of_them() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 100


@pytest.mark.parametrize(
    "name", sample(FORGED, always=["equal to all", "leaves", "reads the tests", "closes all"])
)
def test_no_program_passes_tests_without_computing(name: str, tried: Callable[..., None]) -> None:
    result = examine(FORGED[name], tests=TESTS, limits=Limits(seconds=2.0))
    passed = result.passed == result.total or not result.failed
    tried("sandbox", what=f"forged result: {name}", cases=1, fell=int(passed))
    assert not passed, result


def test_who_computes_passes() -> None:
    for program in (
        "def f(x): return x * x",
        "class F:\n    def __call__(s, x): return x**2\nf = F()",
    ):
        result = examine(program, tests=TESTS, limits=Limits(seconds=5.0))
        assert (result.passed, result.total, result.failed) == (2, 2, "")


def test_a_program_gets_its_input_and_its_output_is_whole() -> None:
    lines = b"".join(b"%d\n" % n for n in range(40_000))
    with Box("import sys\nprint(sum(map(int, sys.stdin)))\nprint('x' * 10**6)") as box:
        outcome = box.finish(lines)
    assert outcome.ended == "exit" and outcome.code == 0
    assert re.fullmatch(rb"799980000\nx{1000000}\n", outcome.output)
