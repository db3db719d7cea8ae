"""Servers that are killed at moments drawn at random, while they answer and while weights come.

python -m tests.campaign.server_kills --kills 10    # 48 minutes on a core that others used

One server, then one of two: after each kill every request has all its tokens, each with the
log-prob that the policy of that moment gives it, and the counters have each token once.
"""

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from random import Random

import numpy as np
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Request
from gfcr.engine.pool import Pool
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.vllm_server import VllmServer
from gfcr.types import Sampling
from tests.integration.tiny_model import reference_logprobs, tiny_qwen3

NUM, NEW = 48, 60


def requests() -> list[Request]:
    law = Sampling(max_tokens=NEW)
    return [
        Request(id=f"{i}", tokens=(2 + i // 4, 3, 4), sampling=law, seed=i, prompt_id=f"p{i // 4}")
        for i in range(NUM)
    ]


def batch(engine: ServerEngine, *, model: Qwen3ForCausalLM) -> float:
    """Runs a batch to its end, checks all that came of it, and returns the seconds it took."""
    began, before = time.monotonic(), engine.stats().generated_tokens
    asked = requests()
    for each in asked:
        engine.submit(each)
    tokens: dict[str, list[int]] = {r.id: [] for r in asked}
    logprobs: dict[str, list[float]] = {r.id: [] for r in asked}
    left = NUM
    while left:
        for delta in engine.step():
            tokens[delta.request_id] += delta.tokens
            logprobs[delta.request_id] += delta.logprobs
            left -= delta.finish is not None
    took = time.monotonic() - began
    for each in asked:
        assert len(tokens[each.id]) == len(logprobs[each.id]) == NEW, each.id
        own = reference_logprobs(model, [*each.tokens, *tokens[each.id]])
        assert np.allclose(own[len(each.tokens) - 1 :], logprobs[each.id], atol=1e-4), each.id
    assert engine.stats().generated_tokens - before == NUM * NEW
    return took


def kill(engine: ServerEngine, *, which: int, after: float) -> threading.Timer:
    process = engine.fleet.servers[which].process
    assert process is not None
    timer = threading.Timer(after, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    return timer


def settled(engine: ServerEngine) -> None:
    """Waits until all servers are up again."""
    while not all(s.up for s in engine.fleet.servers):
        engine.fleet.hear()


def starts(engine: ServerEngine) -> int:
    return sum(s.process.starts for s in engine.fleet.servers if s.process)


def campaign(engine: ServerEngine, *, place: Path, kills: int, seed: int) -> None:
    """Kills a server so often in the middle of a batch, and so often while weights come."""
    draw, size = Random(seed), len(engine.fleet.servers)
    models = [tiny_qwen3(place / str(i), seed=i, eos=None) for i in (3, 4)]
    engine.update_weights([*models[0].named_parameters()], version=1)
    took = batch(engine, model=models[0])
    for n in range(kills):
        before = starts(engine)
        kill(engine, which=n % size, after=draw.uniform(0.02, 0.9) * took)
        batch(engine, model=models[0])
        settled(engine)
        print(f"{size} servers, kill {n + 1} while they answer: {starts(engine) - before} restart")
    began = time.monotonic()
    engine.update_weights([*models[1].named_parameters()], version=2)
    sync = time.monotonic() - began
    for n in range(kills):
        before, model = starts(engine), models[n % 2]
        kill(engine, which=n % size, after=draw.uniform(0.0, 1.0) * sync)
        engine.update_weights([*model.named_parameters()], version=3 + n)
        batch(engine, model=model)
        settled(engine)
        batch(engine, model=model)  # with the one that came back
        print(f"{size} servers, kill {n + 1} while weights come: {starts(engine) - before} restart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, small = Path(folder), {"kv_cache_gib": 0.25, "max_running": 16}
        for i in (1, 3, 4):
            (place / str(i)).mkdir()
        tiny_qwen3(place / "1", seed=1, eos=None)
        for config in (VllmServer(**small), Pool(size=2, **small)):
            engine = config.start(model=str(place / "1"), seed=0)
            try:
                campaign(engine, place=place, kills=asked.kills, seed=asked.seed)
            finally:
                engine.close()
    print("every request whole, every token counted once")


if __name__ == "__main__":
    main()
