"""Strategies of every kind on what speaks as a server does, with batches made ahead."""

import queue
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.engine.server_link import Server
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_route import Route
from gfcr.engine.server_wire import Events
from gfcr.engine.vllm_model import ModelFolder
from gfcr.schedule.ahead import Ahead
from gfcr.tasks.codec import CharCodec
from gfcr.testing import factories as make
from tests.schedules import Work, ages, closed, trained
from tests.unit.engine.served import VOCAB, Served

ASYNC: Any = registry.find("schedule", "async")
LENGTH = 512
CODEC = CharCodec(alphabet="0123456789+-=,?#" + "abcdefghijklmnopqrstuvwxyzABCD")
"""Which knows all that `Served` says."""
STRATEGIES = (
    *("grpo", "dapo", "april", "repo", "treerl", "vineppo"),
    *("multi_turn", "reinforce_ada", "mopps", "s_grpo", "rlep", "fr3e"),
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ServerEngine]:
    served, events = Served(slow_s=0.0, heeds=True), cast("Events", queue.SimpleQueue())
    server = Server(served.url, process=None, events=events, timeout_s=30.0, patience_s=5.0)
    folder = ModelFolder(
        path=tmp_path, tensors=frozenset({"w"}), eos=(5,), max_positions=LENGTH, vocab=VOCAB
    )
    made = ServerEngine(
        [server],
        events=events,
        folder=folder,
        max_length=LENGTH,
        placement=Route(seats=64),
        exchange=tmp_path,
    )
    with closing(made):
        yield made
    served.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_learns_from_what_a_server_made_ahead(name: str, engine: ServerEngine) -> None:
    task = make.CoinTask(rates=(0.4, 0.6))
    plan = strategies.load(name)
    given: dict[str, Any] = {"task": task, "codec": CODEC, "prompts": 2, "max_tokens": 12}
    made = Work(make.pipeline(plan, on=lambda fake: engine, **given))
    with Ahead(made, schedule=ASYNC(staleness=1), last=2, beside=True) as run:
        batches = trained(run, weights=lambda n: [("w", torch.full((3,), float(n)))])
    assert [batch.step for batch in batches] == [0, 1] and closed(made), made.pipeline.tokens()
    assert min(own := ages(batches)) >= 0 and max(own) <= 1
