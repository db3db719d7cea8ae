"""What gfcr's way of driving a vLLM server costs, beside vLLM's own benchmark client.

Both send the same requests to the same server, log-probs included, and wait for all tokens: gfcr
through `submit` and `step`, vLLM's client over `/v1/completions`. The order alternates.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final, cast

from benchmarks import pairs
from benchmarks.demo_pipeline import GROUP
from benchmarks.pairs import Pair, Plan, timed
from benchmarks.rounds import answered
from benchmarks.vllm_client import drive
from gfcr import models, registry
from gfcr.engine.base import EngineConfig, Request
from gfcr.engine.server_loop import ServerEngine
from gfcr.errors import ConfigError
from gfcr.seeds import rng
from gfcr.types import Sampling

PROMPT: Final = 32
"""Tokens of a prompt."""
GOAL: Final = 0.95


def measure(plan: Plan) -> dict[str, Any]:
    """Measures alternating pairs on a server that is started for it.

    Raises:
        ConfigError: there is no such model or setting, or the engine is another.
    """
    config = _server(plan.engine)
    folder = str(models.resolve(plan.model))
    with closing(cast("ServerEngine", config.start(model=folder, seed=0))) as started:
        measured = [
            _pair(started, _requests(started, plan=plan, number=n), first=n % 2)
            for n in range(plan.pairs + 1)  # the first warms up
        ][1:]
    return pairs.data(measured, plan=plan, ours="gfcr", theirs="vllm", goal=GOAL)


def text(found: Mapping[str, Any]) -> str:
    """The report in words."""
    said = pairs.words(found, ours="gfcr", theirs="vllm")
    return f"gfcr / vLLM's benchmark client: {said} through one server"


def _server(changes: Mapping[str, Any]) -> EngineConfig:
    spec = {"name": "vllm_server", **changes}
    if spec["name"] != "vllm_server":
        raise ConfigError(f"engine.name={spec['name']}: leave it out, which is vllm_server.")
    return registry.build("engine", spec, where="engine")


def _requests(engine: ServerEngine, *, plan: Plan, number: int) -> list[Request]:
    vocab, sampling = engine.folder.vocab, Sampling(max_tokens=plan.max_tokens)
    prompts = [
        tuple(rng(0, "bench server", number, i).integers(0, vocab, PROMPT).tolist())
        for i in range(-(-plan.requests // GROUP))
    ]
    return [
        Request(
            id=f"bench-{number}-{i}",
            tokens=prompts[i // GROUP],
            sampling=sampling,
            seed=number * plan.requests + i,
            endless=True,
        )
        for i in range(plan.requests)
    ]


def _pair(engine: ServerEngine, requests: Sequence[Request], *, first: int) -> Pair:
    """Both ways; `first` says whether gfcr's comes first."""
    (server,) = engine.fleet.servers
    sides = {
        "ours": lambda: answered(engine, requests),
        "theirs": lambda: drive(server.url, requests=requests),
    }
    asked = sum(request.sampling.max_tokens for request in requests)
    took: dict[str, float] = {}
    for name in sorted(sides, reverse=not first):
        server.forget_prefixes()
        took[name], tokens = timed(sides[name])
        assert tokens == asked, f"{name}: {tokens} tokens for {asked}"
    return Pair(tokens=asked, ours_s=took["ours"], theirs_s=took["theirs"])
