"""The loop on a server: what was asked comes back whole, whatever becomes of the server."""

import os
import queue
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gfcr.cluster.gate import Gate
from gfcr.cluster.memory import KvBudget
from gfcr.engine import server_wire
from gfcr.engine.base import Delta, Request
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_link import Drafts, Server
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_merge import TailMerge
from gfcr.engine.server_reports import by_request
from gfcr.engine.server_route import Route
from gfcr.engine.server_turns import Turns
from gfcr.engine.server_weights import received
from gfcr.engine.server_wire import Event, Events
from gfcr.engine.vllm_model import ModelFolder
from gfcr.errors import EngineError
from gfcr.speculation.base import BuiltIn, Law, Row, Step
from gfcr.speculation.ngram import Ngram
from gfcr.types import FinishReason, Sampling
from tests.cases import over
from tests.unit.engine.served import VOCAB, Served, next_token

PROMPT = (1, 2, 3)
TENSORS = frozenset({"a.weight", "b.weight"})


class Process:
    """Starts the servers that it is given, one after the other."""

    alive = True

    def __init__(self, *servers: Served) -> None:
        self._servers, self.starts, self.stopped = iter(servers), 0, False

    def begin(self) -> None:
        self.now = next(self._servers)
        self.url = self.now.url
        self.starts += 1

    def stop(self) -> None:
        self.stopped = True

    def last_words(self) -> str:
        return ""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerEngine]]:
    """Starts an engine on servers; those of one tuple succeed each other."""
    opened: list[Any] = []

    def start(
        *servers: Served | tuple[Served, ...],
        given: bool = False,
        timeout_s: float = 5.0,
        drafts: Drafts | None = None,
        drafter: Any = None,
        deltas: torch.dtype | None = None,
    ) -> ServerEngine:
        folder = ModelFolder(
            path=tmp_path, tensors=TENSORS, eos=(5,), max_positions=64, vocab=VOCAB
        )
        lives = [s if isinstance(s, tuple) else (s,) for s in servers]
        events: Events = queue.SimpleQueue()
        processes: list[Any] = [None if given else Process(*life) for life in lives]
        opened.extend(server for life in lives for server in life)
        engine = ServerEngine(
            [
                Server(
                    life[0].url if given else "",
                    process=process,
                    events=events,
                    timeout_s=timeout_s,
                    patience_s=5.0,
                    drafts=drafts,
                )
                for life, process in zip(lives, processes, strict=True)
            ],
            events=events,
            folder=folder,
            max_length=64,
            placement=Route(seats=4),
            exchange=tmp_path,
            deltas=deltas,
            drafter=drafter or (Ngram() if drafts else None),
        )
        opened.insert(0, engine)
        return engine

    yield start
    for each in opened:
        each.close()


def placed(folder: Path) -> Turns:
    """The first of two servers is on a device that serves, whose gate is open."""
    gate, memory = Gate(folder / "gate"), KvBudget(blocks=100)
    return Turns(gate=gate, memory=memory, borrowed=1, seats=4, stall_s=0.1)


def starts(engine: ServerEngine) -> list[int]:
    return [server.process.starts for server in engine.fleet.servers if server.process]


def request(name: str, *, cap: int = 12, seed: int = 7, **changes: Any) -> Request:
    return Request(id=name, tokens=PROMPT, sampling=Sampling(max_tokens=cap), seed=seed, **changes)


def aborts(server: Served, name: str) -> bool:
    """Waits until it sees, as it writes the next token, that a request's connection is closed."""
    until = time.monotonic() + 30
    while not any(key.startswith(f"{name}@") for key in server.aborted):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def expected(num: int) -> list[int]:
    tokens = [*PROMPT]
    for _ in range(num):
        tokens.append(next_token(tokens))
    return tokens[len(PROMPT) :]


def finished(engine: ServerEngine, *, num: int) -> dict[str, tuple[list[int], FinishReason]]:
    tokens: dict[str, list[int]] = {}
    logprobs: dict[str, list[float]] = {}
    done: dict[str, tuple[list[int], FinishReason]] = {}
    while len(done) < num:
        for delta in engine.step():
            assert delta.version == engine.version
            tokens.setdefault(delta.request_id, []).extend(delta.tokens)
            logprobs.setdefault(delta.request_id, []).extend(delta.logprobs)
            if delta.finish is not None:
                done[delta.request_id] = tokens[delta.request_id], delta.finish
    for name, found in tokens.items():
        assert logprobs[name] == [-token / 100 for token in found]
    return done


def heard(engine: ServerEngine) -> Sequence[Delta]:
    """What the first step says that says anything."""
    while not (said := engine.step()):
        pass
    return said


@contextmanager
def files(num: int) -> Iterator[None]:
    """Lets this process open so many files more, as a shell does that allows it more if it asks."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(os.listdir("/proc/self/fd")) + num
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_requests_come_back_whole_and_are_told_apart(start: Any) -> None:
    server = Served()
    engine = start(server)
    engine.submit(request("a"))
    engine.submit(request("b", cap=3, stop=(expected(2)[1],)))
    assert finished(engine, num=2) == {
        "a": (expected(12), FinishReason.LENGTH),
        "b": (expected(2), FinishReason.STOP),
    }
    assert not engine.step() and engine.stats().generated_tokens == 14
    told = [a["sampling_params"] for a in server.asked][-2:]
    assert [t["seed"] for t in told] == [7, 7] and told[1]["stop_token_ids"] == [5, expected(2)[1]]
    assert engine.stats().forward_passes == 14
    server.bulk = 2**20  # a busy server says much at once, with the likeliest of many tokens
    engine.submit(request("c", cap=2, endless=True))
    assert finished(engine, num=1)["c"][0] == expected(2) and starts(engine) == [1]
    assert server.asked[-1]["sampling_params"]["stop_token_ids"] == []
    flight = Flight(request=request("e"), version=0, cap=12)
    assert flight.take(Event(key="e")) is None
    end = flight.take(Event(key="e", finish="stop"))
    assert end is not None and (end.tokens, end.finish) == ((), FinishReason.STOP)
    server.numberless = True
    engine.submit(request("d", cap=1))
    assert "are the weights sound?" in str(heard(engine)[0].problem)
    with files(40):
        engine = start(Served(slow_s=0.08))
        for i in range(100):
            engine.submit(request(f"r{i}", cap=3))
        found = finished(engine, num=100)
    assert all(tokens == expected(3) for tokens, _ in found.values()) and starts(engine) == [1]


def test_a_server_that_dies_is_started_again_and_no_token_is_lost_or_heard_twice(
    start: Any,
) -> None:
    first, second = Served(), Served()
    engine = start((first, second))
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=4)
    first.dies_after = first.pieces + 20
    for seed, name in enumerate("abcd"):
        engine.submit(request(name, seed=seed))
    found = finished(engine, num=4)
    assert found == {name: (expected(12), FinishReason.LENGTH) for name in "abcd"}
    assert starts(engine) == [2] and engine.stats().generated_tokens == 48
    assert second.version == "4" and second.loaded[0]["digest"] == first.loaded[0]["digest"]
    resent = [a for a in second.asked if a["request_id"][0] in "abcd"]
    assert len(resent) == 4
    for body in resent:
        had = len(body["token_ids"]) - len(PROMPT)
        assert body["token_ids"] == [*PROMPT, *expected(had)]
        assert body["sampling_params"]["max_tokens"] == 12 - had
        assert (body["sampling_params"]["seed"] < 4) == (had == 0)
    assert len({body["sampling_params"]["seed"] for body in resent}) == 4


def test_a_server_that_hangs_is_started_again_and_one_that_waits_is_not(
    start: Any, tmp_path: Path
) -> None:
    first, second = Served(), Served()
    engine = start((first, second), timeout_s=0.5)
    first.hangs_after = first.pieces + 6
    engine.submit(request("a"))
    assert finished(engine, num=1) == {"a": (expected(12), FinishReason.LENGTH)}
    assert starts(engine) == [2]
    borrowed, own = Served(), Served()
    engine = start(borrowed, own)
    engine.fleet.placement = turns = placed(tmp_path)
    borrowed.hangs_after = borrowed.pieces
    engine.submit(request("b"))
    turns.gate.served(due_s=0.0, held=0)
    assert not engine.step(), "silence holds up nobody"
    assert finished(engine, num=1)["b"] == (expected(12), FinishReason.LENGTH)
    assert starts(engine) == [1, 1] and told(own) == ["b"]


def test_a_server_too_busy_to_answer_at_first_is_asked_again(start: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_wire, "_CONNECT_S", 0.1)
    server = Served(slow=2)
    engine = start(server)
    engine.submit(request("a"))
    assert finished(engine, num=1)["a"] == (expected(12), FinishReason.LENGTH)
    assert not server.slow and starts(engine) == [1]
    monkeypatch.undo()
    # One that dies as it warms up is not waited for: another takes its place meanwhile.
    dying, later = Served(dies_after=1), Served()
    url, later.url = later.url, ""  # it has chosen no port yet
    engine = start((dying, later), Served())
    lost, other = engine.fleet.servers
    assert other.up and not lost.up
    lost.process.url = url
    while not lost.up:
        engine.fleet.hear()
    engine.submit(request("b"))
    assert finished(engine, num=1)["b"][0] == expected(12) and starts(engine) == [2, 1]


def test_a_server_that_talks_rubbish_is_started_again(start: Any) -> None:
    first, second = Served(), Served()
    engine = start((first, second))
    first.garbles = True
    engine.submit(request("a"))
    assert finished(engine, num=1)["a"] == (expected(12), FinishReason.LENGTH)
    assert starts(engine) == [2]


@pytest.mark.parametrize("beside", [0, 1])
def test_a_server_that_dies_in_the_middle_of_a_sync_has_the_policy_when_it_is_back(
    start: Any, beside: int
) -> None:
    first, second, others = Served(), Served(), [Served() for _ in range(beside)]
    engine = start((first, second), *others)
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=1)
    first.dies_loading = True
    engine.update_weights([(name, torch.zeros(2)) for name in TENSORS], version=2)
    for i in range(4):
        engine.submit(prompted(i, group=1))
    found = finished(engine, num=4)
    while not engine.fleet.servers[0].up:
        engine.fleet.hear()
    assert all(f == (expected(12), FinishReason.LENGTH) for f in found.values())
    assert starts(engine)[0] == 2 and first.version == "1"
    assert {server.version for server in (second, *others)} == {"2"}
    assert len({server.digest for server in (second, *others)}) == 1


@over("way", ["truncates_after", "ends_after"])
def test_a_server_that_ends_a_stream_early_is_started_again(start: Any, way: str) -> None:
    first, second = Served(), Served()
    engine = start((first, second))
    setattr(first, way, first.pieces + 5)
    for name in "ab":
        engine.submit(request(name))
    assert finished(engine, num=2) == dict.fromkeys("ab", (expected(12), FinishReason.LENGTH))
    assert starts(engine) == [2] and engine.stats().generated_tokens == 24


def test_a_server_that_drips_is_started_again_and_its_drops_are_kept(start: Any) -> None:
    """A token every half of `timeout_s`: never silent for as long, and as good as hung."""
    first, second = Served(), Served()
    engine = start((first, second), timeout_s=1.0)
    first.slow_s = 0.5
    engine.submit(request("a"))
    assert finished(engine, num=1)["a"] == (expected(12), FinishReason.LENGTH)
    assert starts(engine) == [2] and engine.stats().generated_tokens == 12
    (again,) = [a for a in second.asked if a["request_id"].startswith("a@")]
    had = len(again["token_ids"]) - len(PROMPT)
    assert had and again["token_ids"] == [*PROMPT, *expected(had)]


def test_a_server_that_fails_within_ends_the_run_with_its_words(start: Any) -> None:
    server = Served()
    engine = start(server)
    server.refuses, server.status = "CUDA error", 500
    engine.submit(request("a"))
    with pytest.raises(EngineError, match=r"refused request 'a'.*CUDA error"):
        finished(engine, num=1)
    with pytest.raises(EngineError, match="CUDA error"):
        engine.score([[1, 2]], sampling=Sampling())
    # One whose engine has died answers for a while, and is started again as if it were dead itself.
    first, second, third = Served(), Served(), Served()
    engine = start((first, second, third))
    first.breaks_after = first.pieces + 5
    engine.submit(request("a"))
    assert finished(engine, num=1)["a"] == (expected(12), FinishReason.LENGTH)
    second.breaks_after = 0
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=1)
    assert starts(engine) == [3] and third.version == "1"


def test_a_server_of_somebody_s_is_not_started_again(start: Any) -> None:
    server = Served()
    engine = start(server, given=True)
    server.dies_after = server.pieces + 2
    engine.submit(request("a"))
    with pytest.raises(EngineError, match="not gfcr's to start"):
        finished(engine, num=1)


def test_caps_move_down_and_up(start: Any) -> None:
    server = Served(slow_s=0.08)  # until it is told, however busy this machine is
    engine = start(server)
    for name in ("down", "up", "late"):
        engine.submit(request(name, cap=40))
    got: dict[str, int] = {}
    while min(got.get(name, 0) for name in ("down", "up", "late")) < 3:
        for delta in engine.step():
            got[delta.request_id] = got.get(delta.request_id, 0) + len(delta.tokens)
    had = got["late"]
    engine.limit("down", max_tokens=6)
    engine.limit("up", max_tokens=48)
    engine.limit("late", max_tokens=1)
    engine.limit("nobody", max_tokens=1)
    server.slow_s = 0.02
    ends: dict[str, FinishReason] = {}
    while len(ends) < 3:
        for delta in engine.step():
            got[delta.request_id] += len(delta.tokens)
            if delta.finish:
                ends[delta.request_id] = delta.finish
    assert set(ends.values()) == {FinishReason.LENGTH}
    assert got["up"] == 48 and got["down"] == max(6, got["down"]) and got["late"] == had + 1
    again = [a for a in server.asked if a["request_id"].startswith("up@")]
    assert [a["sampling_params"]["max_tokens"] for a in again] == [40, 8]


def test_what_is_aborted_says_nothing_more_and_the_server_is_told(start: Any) -> None:
    server = Served(slow_s=0.08)  # until it is told, however busy this machine is
    engine = start(server)
    engine.submit(request("a", cap=40))
    engine.submit(request("b"))
    while not any(delta.request_id == "a" for delta in engine.step()):
        pass  # what has not reached the server is dropped without its knowledge
    engine.abort(["a", "a", "nobody"])
    server.slow_s = 0.02
    assert list(finished(engine, num=1)) == ["b"]
    assert aborts(server, "a")
    engine.submit(request("a"))
    assert finished(engine, num=1)["a"][0] == expected(12)


def test_what_is_aborted_unheard_is_not_counted(start: Any, recwarn: Any) -> None:
    engine = start(Served())
    engine.submit(request("a"))
    while not engine._deltas:
        engine.fleet.hear()
    engine.abort(["a"])
    wire = engine.fleet.servers[0]._wire
    wire._loop.call_soon_threadsafe(time.sleep, 0.05)  # until both of b are there
    engine.submit(request("b"))
    engine.abort(["b"])
    wire.ask("/health")
    assert engine.stats().generated_tokens == 0
    assert not [str(w.message) for w in recwarn if "never awaited" in str(w.message)]


def test_scores_are_of_tokens_after_the_first_at_the_temperature_asked_for(start: Any) -> None:
    engine = start(Served())
    found = [
        s.logprobs_T
        for s in engine.score([[1, 2, 3], [4], [5, 6]], sampling=Sampling(temperature=2.0))
    ]
    assert [f.tolist() for f in found] == [[-1.0, -1.5], [], [-3.0]]
    assert all(f.dtype == np.float32 for f in found)
    cold = [s.logprobs_T for s in engine.score([[1, 2]], sampling=Sampling(temperature=0.0))]
    assert cold[0].tolist() == [-2.0]


def test_the_likeliest_tokens_come_in_order_whatever_stands_in_their_place(start: Any) -> None:
    engine = start(Served())
    asked = [[1, 2, 9], [4]]
    found, single = engine.score(asked, sampling=Sampling(temperature=2.0), top=3)
    assert found.logprobs_T.tolist() == [-1.0, -4.5]
    assert found.top_tokens_TK.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert found.top_logprobs_TK.tolist() == [[-0.5, -1.0, -1.5]] * 2
    assert single.top_tokens_TK.shape == (0, 3)
    (all_,) = engine.score([[1, 2]], sampling=Sampling(), top=10**6)
    assert all_.top_tokens_TK.shape == (1, engine.folder.vocab)


def test_weights_go_by_a_file_that_is_checked_and_replaced(start: Any, tmp_path: Path) -> None:
    server = Served()
    engine = start(server)
    for version in (1, 2):
        tensors = [(name, torch.full((3,), float(version))) for name in sorted(TENSORS)]
        engine.update_weights(tensors, version=version)
        assert engine.version == version and server.version == str(version)
    assert sorted(f.name for f in tmp_path.glob("weights-*")) == ["weights-2.safetensors"]
    told = server.loaded[-1]
    path, held = Path(told["path"]), {"digest": told["digest"], "base": None}
    assert torch.equal(received(path, **held)["a.weight"], torch.full((3,), 2.0))
    with pytest.raises(EngineError, match="not those that were written"):
        received(path, digest="0" * 64, base=None)
    with pytest.raises(EngineError, match="cannot be read"):
        received(tmp_path / "none", **held)


def test_a_server_is_sent_what_changed_and_one_that_has_other_weights_all(
    start: Any, tmp_path: Path
) -> None:
    server = Served()
    engine = start(server, deltas=torch.bfloat16)
    tensors = {name: torch.arange(300.0) + 1 for name in sorted(TENSORS)}
    for version in (1, 2, 3):
        tensors["a.weight"][version] += 40
        if version == 3:  # it was started again, and nobody noticed
            server.held, server.digest = {}, ""
        engine.update_weights([*tensors.items()], version=version)
        assert server.version == str(version)
        for name, tensor in tensors.items():
            assert torch.equal(server.held[name], tensor.to(torch.bfloat16))
    names = [Path(told["path"]).name.partition("-")[0] for told in server.loaded]
    assert names == ["weights", "delta", "weights"]
    told, count = engine.stats(), 300 * len(TENSORS)
    assert (told.weight_elements, told.weights_changed) == (3 * count, count + 2)
    assert told.weight_bytes < 2 * count + 1500
    assert {f.name for f in tmp_path.glob("*-*.safetensors")} == {
        "weights-3.safetensors",
        "delta-3.safetensors",
    }


def test_a_sync_that_a_killed_run_began_is_no_hindrance_to_the_next(start: Any) -> None:
    server = Served()
    server.opened = True
    engine = start(server, given=True)
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=1)
    assert server.version == "1" and not server.opened


def test_two_runs_on_one_server_are_told(start: Any) -> None:
    server = Served()
    ours, theirs = start(server, given=True), start(server, given=True)
    for version, engine in ((1, ours), (2, ours), (7, theirs)):
        weights = [(name, torch.full((2,), float(version))) for name in TENSORS]
        engine.update_weights(weights, version=version)
    ours.submit(request("a"))
    with pytest.raises(EngineError, match=r"under weights of version 7, not 2: .*another run"):
        finished(ours, num=1)
    ours.abort(["a"])
    with pytest.raises(EngineError, match="another run uses it"):
        ours.update_weights([(name, torch.zeros(2)) for name in TENSORS], version=3)
    assert server.version == "7"


def test_what_cannot_be_is_refused(start: Any) -> None:
    server = Served()
    engine = start(server)
    whole = [(name, torch.ones(1)) for name in TENSORS]
    with pytest.raises(EngineError, match="lack 1 of the model's tensors"):
        engine.update_weights(whole[:1], version=1)
    server.holds = 3
    engine.update_weights(whole, version=1)
    assert server.holds < 0, "it is asked until nothing of the old policy is cached"
    server.lies = True
    with pytest.raises(EngineError, match=r"of version 9, SHA-256 .* not 1"):
        engine.update_weights(whole, version=1)
    with pytest.raises(EngineError, match=r"needs 3 \+ 62 = 65 tokens"):
        engine.submit(request("long", cap=62))
    engine.submit(request("a"))
    with pytest.raises(EngineError, match="is in flight"):
        engine.submit(request("a"))
    with pytest.raises(EngineError, match="1 requests are in flight"):
        engine.update_weights(whole, version=2)
    assert len(engine.score([[0, VOCAB - 1]], sampling=Sampling())) == 1
    for tokens, why in (([1, VOCAB], "token ids from 1 to 50"), ([], "has no tokens")):
        with pytest.raises(EngineError, match=why):
            engine.score([tokens], sampling=Sampling())
    engine.abort(["a"])
    server.refuses = "no such parameter"
    engine.submit(request("b"))
    with pytest.raises(EngineError, match=r"refused request 'b'.*no such parameter"):
        heard(engine)


def test_speculation_is_counted_and_budgets_are_told(start: Any) -> None:
    server = Served(drafts={"method": "ngram", "length": 3})
    engine = start(server, given=True, drafts=Drafts(method="ngram", length=3))
    before = server.pieces
    engine.submit(request("free"))
    engine.submit(request("bound", draft_budget=0))
    finished(engine, num=2)
    free, bound = (a["sampling_params"] for a in server.asked[-2:])
    assert "extra_args" not in free and bound["extra_args"] == {"gfcr": {"draft_budget": 0}}
    told, made = engine.stats(), server.pieces - before
    assert (told.drafts, told.drafted_tokens, told.accepted_tokens) == (made, 3 * made, 2 * made)
    assert told.accepted_per_position == (made, made)
    cold = Sampling(max_tokens=2, min_p=0.1)
    with pytest.raises(EngineError, match="no min_p together with speculation"):
        engine.submit(Request(id="min", tokens=PROMPT, sampling=cold))


class Learns(BuiltIn):
    """Wants the two likeliest tokens, and has one new draft."""

    max_draft, recorded = 3, 2

    def __init__(self) -> None:
        self.ended: list[tuple[Row, Law | None]] = []
        self.steps: list[Step] = []
        self.next: Any = None

    def settings(self) -> dict[str, Any]:
        return {"method": "draft_model", "num_speculative_tokens": 3}

    def saw(self, step: Step) -> None:
        self.steps.append(step)

    def finished(self, row: Row, *, law: Law | None) -> None:
        self.ended.append((row, law))

    def fresh_weights(self) -> Any:
        made, self.next = self.next, None
        return made


def test_a_drafter_sees_what_was_said_and_servers_draft_as_it_says(start: Any) -> None:
    told = {"method": "draft_model", "length": 3}
    lives = Served(drafts=told), Served(drafts=told)
    drafter = Learns()
    engine = start(lives, drafter=drafter)
    assert not drafter.ended  # it does not learn from what warms up
    begun = lives[0].pieces
    engine.submit(request("a"))
    engine.submit(request("evaluation", draft_budget=0))
    finished(engine, num=2)
    assert [a["sampling_params"]["logprobs"] for a in lives[0].asked[-2:]] == [3, 0]
    ((row, law),) = drafter.ended
    assert row.request_id == "a" and row.tokens_T.tolist() == [*PROMPT, *expected(12)]
    assert law is not None
    assert law.ids_TM.tolist() == [[t - 2, t - 1] for t in expected(12)]
    assert np.allclose(np.log(law.probs_TM), -law.ids_TM / 100)
    assert sum(step.drafts for step in drafter.steps) == lives[0].pieces - begun
    assert sum(step.accepted for step in drafter.steps) == engine.stats().accepted_tokens

    drafter.next = [("head", torch.ones(3))]
    engine.submit(request("b", cap=2))
    finished(engine, num=1)
    (draft,) = lives[0].drafted
    assert draft["head"].tolist() == [1, 1, 1]
    lives[0].dies_after = lives[0].pieces + 3
    engine.submit(request("c"))
    assert finished(engine, num=1)["c"][0] == expected(12)
    assert starts(engine) == [2]
    assert lives[1].drafted[0]["head"].tolist() == [1, 1, 1]  # the new one drafts with it, too
    row, law = drafter.ended[-1]
    assert law is not None and law.ids_TM[:, 1].tolist() == [t - 1 for t in expected(12)]


def test_what_is_aborted_is_learnt_from_up_to_there(start: Any) -> None:
    drafter = Learns()
    engine = start(Served(), drafter=drafter)
    engine.submit(request("a", cap=40))
    said = heard(engine)
    engine.abort(["a"])
    ((row, law),) = drafter.ended
    made = sum(len(d.tokens) for d in said)
    assert law is not None and len(row.tokens_T) - len(PROMPT) == len(law.ids_TM) >= made > 0


def test_a_server_that_drafts_otherwise_or_knows_no_gfcr_is_refused(start: Any) -> None:
    for drafts in (None, {"method": "ngram", "length": 2}):
        server = Served(drafts=drafts)
        with pytest.raises(EngineError, match=r"drafts by .* strategy\.drafter asks"):
            start(server, given=True, drafts=Drafts(method="ngram", length=3))
    with pytest.raises(EngineError, match=r"drafts by .* asks for nothing"):
        start(Served(drafts={"method": "ngram", "length": 2}), given=True)
    with pytest.raises(EngineError, match="does not know gfcr"):
        start(Served(strange=True), given=True)


def test_steps_are_told_by_request_with_what_they_verified(start: Any) -> None:
    server = Served(steps=[["a@3", 1, 0, 2, 2, [7, 8]], ["a@3", 2, 1, 2, 1, []]])
    other = Served()
    engine = start(server, (other, Served()))
    engine.fleet.traced = True
    engine.submit(request("a", cap=3))
    finished(engine, num=1)
    key = server.asked[-1]["request_id"]
    assert server.asked[-1]["sampling_params"]["extra_args"] == {"gfcr": {"trace": key}}
    other.breaks_after = other.pieces
    for _ in range(2):  # the other is found dead, and is being started again
        (steps,) = engine.fleet.steps().values()
        assert [(s.gained, s.drafts, s.row) for s in steps] == [(2, (7, 8), 0), (1, (), 1)]
        assert starts(engine) == [1, 2] and not engine.fleet.servers[1].up


def test_steps_of_a_request_that_moved_are_those_whose_tokens_were_heard() -> None:
    """Of two servers; the first sampled on when the second had the request already."""
    here = [["a@3", 1, 0, 1, 2, (5,)], ["a@3", 2, 0, 1, 3, (6, 7)], ["a@3", 3, 0, 1, 1, ()]]
    here += [["a@12", 9, 0, 1, 1, ()]]
    there = [["a@4", 1, 0, 1, 1, ()], ["b@5", 2, 0, 1, 2, (8,)]]
    found = by_request([here, there], sent={"a@3": 0, "a@4": 4, "b@5": 0, "a@12": 5})
    assert [(s.gained, s.drafts) for s in found["a"]] == [(2, (5,)), (2, (6, 7)), (1, ()), (1, ())]
    assert [s.step for s in found["a"]] == [2, 4, 3, 18]
    assert [(s.gained, s.drafts) for s in found["b"]] == [(2, (8,))]


def test_servers_are_ended_together(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    monkeypatch.setattr(Process, "stop", lambda own: both.wait(5))
    engine = start(Served(), Served())
    engine.close()
    monkeypatch.undo()


def test_a_server_that_dies_again_and_again_is_given_up(start: Any) -> None:
    first, *others = Served(), Served(), Served(), Served(), Served()
    engine = start((first, *others))
    for server in (first, *others):
        server.dies_after = server.pieces
    engine.submit(request("a"))
    with pytest.raises(EngineError, match="lost 4 times without sampling"):
        finished(engine, num=1)


# ------------------------------------------------------------ pools


def prompted(i: int, *, group: int = 4, cap: int = 12) -> Request:
    name, sampling = f"p{i // group}", Sampling(max_tokens=cap)
    return Request(id=f"{name}-{i}", tokens=PROMPT, sampling=sampling, seed=i, prompt_id=name)


def told(server: Served) -> list[str]:
    """Requests that a server was given, in order."""
    asked = [a["request_id"].rpartition("@")[0] for a in server.asked if "request_id" in a]
    return [name for name in asked if not name.startswith("warm")]


def test_a_pool_keeps_prompts_together_and_counts_all_servers(start: Any) -> None:
    meets = threading.Barrier(2, timeout=10)  # each waits until the other is given weights too
    one, two = Served(meets=meets), Served(meets=meets)
    engine = start(one, two)
    before = one.pieces + two.pieces
    for i in range(8):
        engine.submit(prompted(i))
    finished(engine, num=8)
    homes = [{name.split("-")[0] for name in told(server)} for server in (one, two)]
    assert homes == [{"p0"}, {"p1"}] and len(told(one)) == len(told(two)) == 4
    now = engine.stats()
    assert now.generated_tokens == 96 == now.forward_passes == one.pieces + two.pieces - before
    assert now.by_server == (96, 96), "two a piece, as its page says"
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=3)
    assert one.version == two.version == "3" and one.digest == two.digest != ""
    asked = [len(server.asked) for server in (one, two)]
    found = [s.logprobs_T for s in engine.score([[1, 2], [3], [4, 5], [6, 7]], sampling=Sampling())]
    assert [f.tolist() for f in found] == [[-2.0], [], [-5.0], [-7.0]]
    assert [len(s.asked) - n for s, n in zip((one, two), asked, strict=True)] == [2, 1]


@pytest.mark.parametrize("after", [0, 3, 17, 40])
def test_when_one_of_a_pool_dies_the_others_go_on_with_its_requests(start: Any, after: int) -> None:
    dying, other, successor = Served(), Served(), Served()
    engine = start((dying, successor), other)
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=4)
    dying.dies_after = dying.pieces + after
    for i in range(8):
        engine.submit(prompted(i, group=2))
    found = finished(engine, num=8)
    assert all(f == (expected(12), FinishReason.LENGTH) for f in found.values())
    assert engine.stats().generated_tokens == 96 and starts(engine) == [2, 1]
    assert len(told(other)) > 4, "nothing went on on the other"
    for body in (*other.asked, *successor.asked):
        if "request_id" in body and not body["request_id"].startswith("warm"):
            had = len(body["token_ids"]) - len(PROMPT)
            assert body["token_ids"] == [*PROMPT, *expected(had)]
    engine.update_weights([(name, torch.zeros(2)) for name in TENSORS], version=5)
    engine.submit(prompted(99))
    finished(engine, num=1)
    while not engine.fleet.servers[0].up:
        engine.fleet.hear()
    assert successor.version == "5" and successor.digest == other.digest


def test_scores_survive_a_server_and_wait_for_none(start: Any, tmp_path: Path) -> None:
    for way in ("cuts", "ends_after"):
        dying, other, successor = Served(), Served(), Served()
        engine = start((dying, successor), other)
        setattr(dying, way, 1)
        found = [s.logprobs_T for s in engine.score([[1, 2], [3, 4], [5, 6]], sampling=Sampling())]
        assert [f.tolist() for f in found] == [[-2.0], [-4.0], [-6.0]], way
        assert starts(engine) == [2, 1], way
    borrowed, own = Served(), Served()
    engine = start(borrowed, own)
    engine.fleet.placement = placed(tmp_path)
    engine.fleet.placement.gate.served(due_s=0.0, held=0)
    before = len(borrowed.asked)
    found = [s.logprobs_T for s in engine.score([[1, 2], [3, 4]], sampling=Sampling())]
    assert [f.tolist() for f in found] == [[-2.0], [-4.0]] and len(borrowed.asked) == before


def test_caps_and_aborts_reach_the_server_that_has_the_request(start: Any) -> None:
    one, two = Served(slow_s=0.08), Served(slow_s=0.08)  # until told, however busy this machine is
    engine = start(one, two)
    for i in range(4):
        engine.submit(prompted(i, group=2, cap=40))
    had = Counter[str]()
    while len(had) < 4:  # what has not reached a server is dropped without its knowledge
        for delta in engine.step():
            had[delta.request_id] += len(delta.tokens)
    engine.abort(["p0-0", "p1-2"])
    for name in ("p0-1", "p1-3"):
        engine.limit(name, max_tokens=30)
    one.slow_s = two.slow_s = 0.02
    found = finished(engine, num=2)
    made = {name: had[name] + len(tokens) for name, (tokens, _) in found.items()}
    assert made == {"p0-1": 30, "p1-3": 30}
    for server, gone in ((one, "p0-0"), (two, "p1-2")):
        assert aborts(server, gone)


def test_one_of_somebody_s_servers_may_go_and_come_back(start: Any, caplog: Any) -> None:
    one, two = Served(), Served()
    engine = start(one, two, given=True)
    one.dies_after = one.pieces + 2
    for i in range(4):
        engine.submit(prompted(i, group=1))
    found = finished(engine, num=4)
    assert all(f == (expected(12), FinishReason.LENGTH) for f in found.values())
    assert "was lost" in caplog.text and not engine.fleet.servers[0].up
    one.dies_after = None
    engine.update_weights([(name, torch.ones(2)) for name in TENSORS], version=2)
    while not engine.fleet.servers[0].up:
        engine.fleet.hear()
    assert one.version == two.version == "2"


def test_a_tail_goes_on_on_one_server_from_the_tokens_it_had(start: Any) -> None:
    one, two = Served(slow_s=0.02), Served(slow_s=0.02)
    engine = start(one, two)
    engine.fleet.placement = TailMerge(Route(seats=4), at=2)
    for i in range(8):
        engine.submit(prompted(i, cap=4 if i % 4 else 40))
    found = finished(engine, num=8)
    whole = {f"p{i // 4}-{i}": expected(4 if i % 4 else 40) for i in range(8)}
    assert found == {name: (tokens, FinishReason.LENGTH) for name, tokens in whole.items()}
    moved = [a for s in (one, two) for a in s.asked if len(a.get("token_ids", ())) > len(PROMPT)]
    assert len(moved) == 1 and engine.stats().recomputed_tokens == len(moved[0]["token_ids"])
    assert engine.stats().generated_tokens == 6 * 4 + 2 * 40
