"""The client's view of serving, and what it tells rollouts."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.rose.open_loop import OpenLoop
from benchmarks.rose.trace import Arrival, Trace
from benchmarks.rose.traffic import Traffic, sending
from gfcr.cluster.gate import Gate
from gfcr.cluster.slack import Admission, Objectives
from gfcr.cluster.watch import Watch
from gfcr.engine.vllm_gate import gated
from gfcr.errors import EngineError
from gfcr.speculation.cost import PassCost
from tests.cases import over
from tests.unit.engine.served import VOCAB, Served

COST = PassCost(base_s=0.01, token_s=0.0)
ADMISSION = Admission(
    objectives=Objectives(ttft_s=0.2, tpot_s=0.1), cost=COST, chunk=64, reserve=0.0
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_latencies_are_those_of_the_client() -> None:
    clock = Clock()
    watch = Watch(clock=clock)
    watch.arrived("a", prompt=7)
    clock.now = 0.5
    watch.gained("a", tokens=1)
    clock.now = 0.7
    watch.gained("a", tokens=2)
    watch.gained("a", tokens=0)
    watch.gained("nobody", tokens=1)
    (served,) = watch.served()
    assert (served.arrived_s, served.last_s, served.waiting) == (0.0, 0.7, 0)
    watch.ended("a")
    assert [*watch.ttft_s] == [0.5] and [*watch.tpot_s] == pytest.approx([0.1, 0.1])
    assert not watch.served()


def test_the_latest_latencies_are_kept_and_no_more_than_asked_for() -> None:
    clock = Clock()
    watch = Watch(clock=clock, keep=3)
    for name in "abcde":
        watch.arrived(name, prompt=1)
        for _ in range(4):
            clock.now += 1 + ord(name)
            watch.gained(name, tokens=1)
        watch.ended(name)
    assert [*watch.ttft_s] == [1 + ord(name) for name in "cde"]
    assert [*watch.tpot_s] == [1 + ord("e")] * 3


def test_a_request_is_sent_when_it_is_due_and_answered_whole() -> None:
    server, watch = Served(), Watch()
    arrivals = [Arrival(at_s=0.05 * i, prompt=5 + i, output=3) for i in range(6)]
    client = OpenLoop(server.url, arrivals=arrivals, watch=watch, vocab=VOCAB)
    client.run()
    server.close()
    assert client.answered == 6 and not client.failed and not watch.served()
    assert len(watch.ttft_s) == 6 and len(watch.tpot_s) == 12
    late = Watch()  # as where the client had to wait for its core
    due = [Arrival(at_s=-9.0, prompt=5, output=3)]
    other = Served()
    OpenLoop(other.url, arrivals=due, watch=late, vocab=VOCAB).run()
    other.close()
    assert late.ttft_s[0] > 9, "it has waited since it was due"
    assert sorted(len(body["token_ids"]) for body in server.asked) == [5, 6, 7, 8, 9, 10]
    again = Served()
    OpenLoop(again.url, arrivals=arrivals, watch=Watch(), vocab=VOCAB).run()
    again.close()
    told = [{b["request_id"]: b["token_ids"] for b in s.asked} for s in (server, again)]
    assert told[0] == told[1]


@over("how", [{"cuts": True}, {"refuses": "no"}, {"dies_after": 4}])
def test_what_is_not_answered_fails_with_words(how: dict[str, Any]) -> None:
    server, watch = Served(**how), Watch()
    arrivals = [Arrival(at_s=0.01 * i, prompt=5, output=3) for i in range(4)]
    client = OpenLoop(server.url, arrivals=arrivals, watch=watch, vocab=VOCAB)
    client.run()
    server.close()
    assert client.answered + len(client.failed) == 4 and client.failed
    assert all(client.failed.values()) and not watch.served()


def test_the_gate_is_open_until_the_most_pressing_request_needs_the_device(tmp_path: Path) -> None:
    """The next token is due at 0.1 and takes 0.01: a step of 0.01 fits until 0.08."""
    clock = Clock()
    ours, theirs = (Gate(tmp_path / "gate", clock=clock) for _ in range(2))
    watch = Watch(clock=clock, gate=ours, admission=ADMISSION)
    theirs.measured(COST)
    assert theirs.tokens(least=4, most=9) == 9, "nothing is served"
    watch.arrived("a", prompt=3)
    assert theirs.due_s == pytest.approx(0.19) and theirs.held == 3
    watch.gained("a", tokens=1)
    assert theirs.due_s == pytest.approx(0.09) and theirs.held == 4
    clock.now = 0.079
    assert theirs.tokens(least=4, most=9) == 9
    clock.now = 0.081
    assert theirs.tokens(least=4, most=9) == 0
    watch.gained("a", tokens=1)
    assert theirs.tokens(least=4, most=9) == 9
    watch.ended("a")
    assert theirs.due_s == float("inf") and theirs.held == 0


def test_a_gate_that_both_sides_make_at_once_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_file", lambda self: False)  # either looks before the other makes
    ours, theirs = (Gate(tmp_path / "gate") for _ in range(2))
    assert theirs.due_s == float("inf") and theirs.cost is None
    ours.served(due_s=0.1, held=7)
    assert (theirs.due_s, theirs.held) == (0.1, 7)
    assert [file.name for file in tmp_path.iterdir()] == ["gate"]


def test_a_step_carries_what_fits(tmp_path: Path) -> None:
    clock = Clock()
    gate = Gate(tmp_path / "gate", clock=clock)
    gate.served(due_s=0.1, held=0)
    assert gate.tokens(least=1, most=64) == 64, "nobody has measured a step"
    gate.measured(PassCost(base_s=0.01, token_s=0.01))
    assert gate.tokens(least=1, most=64) == 9
    assert gate.tokens(least=8, most=64) == 9
    assert gate.tokens(least=10, most=64) == 0, "serving would have nothing left"
    assert gate.tokens(least=1, most=3) == 3


def test_an_engine_core_steps_only_while_the_gate_is_open(tmp_path: Path) -> None:
    clock = Clock()
    gate = Gate(tmp_path / "gate", clock=clock)
    gate.measured(PassCost(base_s=0.0, token_s=0.01))
    told = SimpleNamespace(max_num_batched_tokens=64, enable_chunked_prefill=True)
    scheduler = SimpleNamespace(
        has_unfinished_requests=lambda: bool(scheduler.running),
        running=[1, 2, 3],
        scheduler_config=told,
        max_num_scheduled_tokens=64,
    )
    core = SimpleNamespace(scheduler=scheduler)
    step = gated(lambda self: ("stepped", True), gate=gate)
    gate.served(due_s=0.02, held=0)
    assert step(core) == ({}, False) and gate.steps == 0
    clock.now = 0.5
    gate.served(due_s=0.551, held=0)
    assert step(core) == ("stepped", True)
    assert scheduler.max_num_scheduled_tokens == 5
    assert (gate.steps, gate.shut_s) == (1, pytest.approx(0.5))
    gate.served(due_s=float("inf"), held=0)
    assert step(core)[1] and scheduler.max_num_scheduled_tokens == 64
    gate.served(due_s=0.0, held=0)
    scheduler.running = []
    assert step(core)[1], "what is over is put away at any time"
    assert gate.shut_s == pytest.approx(0.5)


def test_a_client_in_a_process_of_its_own_tells_the_gate(tmp_path: Path) -> None:
    server, file = Served(), tmp_path / "gate"
    gate = Gate(file)
    trace = Trace(seconds=1.0, rate=30, prompt=8, output=4, longest=20, burst_s=0.2)
    traffic = Traffic(url=server.url, trace=trace, vocab=VOCAB, gate=str(file), admission=ADMISSION)
    closed = False
    with sending(traffic, log=tmp_path / "log") as sender:
        until = gate.clock() + 30
        while not closed and gate.clock() < until:
            closed = gate.held > 0
        found = sender.result()
    server.close()
    assert closed and gate.due_s == float("inf")
    assert found.answered == len(trace.arrivals()) == len(found.ttft_s) > 5 and not found.failed
    assert len(found.tpot_s) == sum(each.output - 1 for each in trace.arrivals()), "all are told"


def test_a_client_that_is_killed_leaves_the_gate_as_it_was(tmp_path: Path) -> None:
    server, gate = Served(hangs_after=1), Gate(tmp_path / "gate")
    trace = Trace(seconds=30.0, rate=30, prompt=8, output=4, longest=20)
    traffic = Traffic(
        url=server.url,
        trace=trace,
        vocab=VOCAB,
        gate=str(tmp_path / "gate"),
        admission=ADMISSION,
    )
    with sending(traffic, log=tmp_path / "log") as sender:
        until = gate.clock() + 30
        while not gate.held and gate.clock() < until:
            time.sleep(0.001)
        sender.kill()
        with pytest.raises(EngineError, match="ended with exit code -9"):
            sender.result()
    server.close()
    assert gate.held and gate.due_s < gate.clock() + 1, "shut: what waits there goes elsewhere"
