"""Rollouts on the core of a real serving engine, and what is left when one of them dies.

About two minutes: three vLLM servers, a client, and batches through the pipeline.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from benchmarks.rose import live
from benchmarks.rose.live import Played, Scene, started
from benchmarks.rose.trace import Trace
from benchmarks.rose.traffic import Answered, Sender
from gfcr.cluster.slack import Objectives
from gfcr.engine.server_link import Server
from gfcr.errors import EngineError

pytestmark = [pytest.mark.vllm, pytest.mark.whole, pytest.mark.timeout(600)]

TRACE = Trace(seconds=8.0, rate=6.0, longest=64, prompt=32, output=24, burst_s=1.0)
BUDGETS = Objectives(ttft_s=0.06, tpot_s=0.02)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    engine = {"kv_cache_gib": 0.25, "max_running": 16, "timeout_s": 20.0}
    with started(model="demo", serving="demo", prompts=8, max_tokens=48, engine=engine) as found:
        yield found


def pid_of(server: Server) -> int:
    assert server.process is not None
    return server.process.pid


def killed(server: Server, *, after: float) -> threading.Timer:
    timer = threading.Timer(after, lambda: os.killpg(pid_of(server), signal.SIGKILL))
    timer.start()
    return timer


def test_each_arm_does_what_it_says(scene: Scene) -> None:
    cost = scene.gate.cost
    assert cost is not None and 0 < cost.seconds(tokens=16) < 1
    found: dict[str, Played] = {}
    for arm in live.ARMS:
        steps = scene.gate.steps
        played = found[arm] = scene.play(arm, trace=TRACE, budgets=BUDGETS)
        assert played.served.answered == len(TRACE.arrivals()) and not played.served.failed
        assert played.remainder == 0 and played.made == sum(played.bins.values())
        assert (played.made > 0) == (arm != "serving")
        assert (scene.gate.steps > steps) == (arm in ("unadmitted", "idle", "rose"))
        assert (played.shut_s > 0) == (arm in ("idle", "rose"))
        assert bool(played.spare) == (arm != "serving")
    assert found["rose"].rate > found["split"].rate * 1.05
    assert all(found[arm].cuts == 0 for arm in live.ARMS)


@pytest.mark.parametrize("which", ["borrowed", "dedicated"])
def test_a_replica_that_is_killed_loses_no_rollout(scene: Scene, which: str) -> None:
    server = scene.rollouts.fleet.servers[which == "dedicated"]
    starts = server.process and server.process.starts
    timer = killed(server, after=2.0)
    played = scene.play("rose", trace=TRACE, budgets=BUDGETS)
    timer.join()
    assert server.process is not None and starts is not None
    assert server.process.starts == starts + 1
    assert played.remainder == 0 and not played.served.failed
    while not server.up:
        scene.rollouts.fleet.hear()
    again = scene.play("rose", trace=replace(TRACE, seed=1), budgets=BUDGETS)
    assert again.remainder == 0 and again.made > 0


def test_the_client_that_is_killed_leaves_no_rollout_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody says any more when serving can spare the core: what waits there goes elsewhere."""
    real, seen = Sender.result, list[float]()

    def cut(sender: Sender) -> Answered:
        sender.kill()
        with pytest.raises(EngineError, match="ended with exit code -9"):
            real(sender)
        return Answered(ttft_s=[], tpot_s=[], answered=0, failed={})

    def kill() -> None:
        while scene.gate.due_s == float("inf"):
            time.sleep(0.001)
        (child,) = [c for c in psutil.Process().children() if "traffic" in " ".join(c.cmdline())]
        seen.append(scene.gate.due_s)
        child.kill()

    monkeypatch.setattr(Sender, "result", cut)
    thread = threading.Timer(1.0, kill)
    thread.start()
    played = scene.play("rose", trace=TRACE, budgets=BUDGETS)
    thread.join()
    assert played.remainder == 0 and played.made > 0
    assert scene.gate.due_s < time.monotonic(), "shut since"


def test_requests_of_a_serving_engine_that_is_killed_fail_with_words(scene: Scene) -> None:
    server = scene.serving.fleet.servers[0]
    timer = killed(server, after=3.0)
    played = scene.play("rose", trace=TRACE, budgets=BUDGETS)
    timer.join()
    served = played.served
    assert served.failed and all(served.failed.values())
    assert served.answered + len(served.failed) == len(TRACE.arrivals())
    assert played.remainder == 0 and played.made > 0, "rollouts have the core to themselves"
    assert scene.gate.due_s == float("inf")
