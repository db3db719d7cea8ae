"""Worlds in threads of their own: asked in order, and closed whatever happens."""

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from gfcr.generate.environments.base import Observation, World
from gfcr.generate.environments.hosted import Hosted
from gfcr.handles import Verdict
from gfcr.types import Prompt
from tests.cases import over
from tests.pages import ROOT

LEFT = """
import sys, time
from tests.unit.generate.environments.test_hosted import Noting
from gfcr.generate.environments.hosted import Hosted
hosted = Hosted(lambda: Noting(say=print), timeout_s=60)
hosted.wait(hosted.ask(lambda world: world.act("a")))
if sys.argv[1:]:
    hosted.ask(lambda world: time.sleep(600))
print("over", flush=True)
"""


class Noting(World):
    """Says what happens to it."""

    def __init__(self, say: Any) -> None:
        self.say = say

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation()

    def act(self, action: str) -> Observation:
        self.say(f"{action} in {threading.current_thread().name}")
        return Observation(text=action)

    def verdict(self, last: str) -> Verdict | None:
        return None

    def close(self) -> None:
        self.say("closed")


def test_a_world_is_asked_in_order_and_closed_last() -> None:
    said: list[str] = []
    hosted = Hosted(lambda: Noting(said.append), timeout_s=10)
    asked = [hosted.ask(lambda world, word=word: world.act(word)) for word in "abc"]
    hosted.close()
    assert [hosted.wait(answer).text for answer in asked] == ["a", "b", "c"]
    hosted.join(10)
    words, threads = zip(*(line.split(" in ") for line in said[:3]), strict=True)
    assert words == ("a", "b", "c") and len(set(threads)) == 1 and said[3:] == ["closed"]


def test_a_world_that_was_never_asked_is_never_made() -> None:
    made: list[int] = []
    hosted = Hosted(lambda: made.append(1) or Noting(print), timeout_s=10)
    hosted.close()
    hosted.join(10)
    assert not made


def test_its_own_time_out_is_told_from_ours() -> None:
    def raises(world: World) -> None:
        raise TimeoutError("the server's")

    patient, hasty = (Hosted(lambda: Noting([].append), timeout_s=s) for s in (10, 0.05))
    with pytest.raises(TimeoutError, match="the server's"):
        patient.wait(patient.ask(raises))
    with pytest.raises(TimeoutError, match=r"the environment took more than 0.05 s"):
        hasty.wait(hasty.ask(lambda world: time.sleep(0.5)))
    for hosted in (patient, hasty):
        hosted.close()
        hosted.join(10)


@pytest.mark.whole
@over("hangs", [False, True])
def test_the_end_of_the_process_closes_what_is_left_and_waits_for_no_other(hangs: bool) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LEFT, *(["hangs"] if hangs else [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert ("over\nclosed\n" in done.stdout) != hangs and "over" in done.stdout
    assert time.monotonic() - began < 100
