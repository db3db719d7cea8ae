"""A stream that does not stop, and when a draft has recovered."""

from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.aurora.measure import Played, learning, length_of, recovered
from benchmarks.aurora.scene import Plan
from benchmarks.aurora.stream import Block, Stream
from gfcr.engine.base import EngineStats
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.speculation.online import Online
from gfcr.types import Prompt, Sampling


def block(accepted: int, *, requests: int = 32) -> Block:
    spent = EngineStats(drafts=10, accepted_tokens=accepted, generated_tokens=accepted + 10)
    return Block(requests=requests, spent=spent, seconds=0.5)


def played(*accepted: int) -> Played:
    return Played(arm="online", seed=0, before=[], after=[block(a) for a in accepted])


def test_a_draft_has_recovered_with_the_first_window_at_the_goal() -> None:
    found = played(5, 5, 20, 20, 20, 20)
    assert recovered(found, reference=3.0) == 5 * 32  # 1 + 60 / 30 = 3 from the third block on
    assert recovered(found, reference=1 + 45 / 30 + 0.001) == 4 * 32
    assert recovered(found, reference=3.2) is None
    assert length_of(found.after[:2]) == 1.5
    assert found.last == length_of(found.after)


def test_a_stream_keeps_as_many_in_flight_and_counts_each_request_once() -> None:
    prompts = [Prompt(id=f"p{i}", tokens=(1, 2, i % 5), text="", answer="") for i in range(100)]
    engine = FakeEngine(Fake(), seed=0)
    stream = Stream(engine=engine, sampling=Sampling(max_tokens=20), running=8, block=10)
    blocks = stream.blocks(prompts, seed=3)
    first = next(blocks)
    assert 10 <= first.requests < 10 + 8 and len(stream._live) <= 8
    rest = [*blocks]
    stream.drain()
    assert stream.ended == 100 and stream.failed == 0
    assert sum(b.requests for b in (first, *rest)) <= 100
    assert first.spent.generated_tokens > 0


def test_what_is_in_flight_ends_before_the_learner_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(Fake(), seed=0)
    stream = Stream(engine=engine, sampling=Sampling(max_tokens=20), running=8, block=10)
    scene: Any = SimpleNamespace(plan=Plan(), stream=stream)
    left: list[int] = []
    monkeypatch.setattr(Online, "stop", lambda online: left.append(len(stream._live)))
    prompts = cycle([Prompt(id="p", tokens=(1, 2), text="", answer="")])
    with learning(scene, folder=tmp_path, every=24) as online:
        next(stream.blocks(prompts, seed=0))
        assert stream._live and online.steps == 8
    assert left == [0]
