"""What gfcr's way of driving a vLLM server costs, beside vLLM's own benchmark client.

Both send the same requests to the same server, log-probs included, and wait for all tokens: gfcr
through `submit` and `step`, vLLM's client over `/v1/completions`. The order alternates.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, cast

from gfcr import models, registry
from gfcr.bench.rounds import spread
from gfcr.engine.base import EngineConfig, Request
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.vllm_client import drive
from gfcr.errors import ConfigError
from gfcr.seeds import rng
from gfcr.types import Sampling

GROUP: Final = 8
"""Requests of a prompt."""
PROMPT: Final = 32
GOAL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same requests both ways."""

    tokens: int
    ours_s: float
    theirs_s: float

    @property
    def ratio(self) -> float:
        """Our tokens/s over theirs."""
        return self.theirs_s / self.ours_s


def measure(
    *, model: str, pairs: int, requests: int, max_tokens: int, engine: Mapping[str, Any]
) -> dict[str, Any]:
    """Measures `pairs` alternating pairs of `requests` requests.

    Args:
        model: its name or folder.
        pairs: to measure.
        requests: of each side.
        max_tokens: that each request samples.
        engine: settings of the server that are not its defaults.

    Raises:
        ConfigError: fewer than 5 pairs, fewer requests than a group, or no such setting.
    """
    if pairs < 5 or requests < GROUP:
        raise ConfigError(f"pairs={pairs}, requests={requests}: give at least 5 and {GROUP}.")
    config = _server(engine)
    folder = str(models.resolve(model))
    with closing(cast("ServerEngine", config.start(model=folder, seed=0))) as started:
        measured = [
            _pair(started, _requests(started, num=requests, new=max_tokens, number=n), first=n % 2)
            for n in range(pairs + 1)  # the first warms up
        ][1:]
    ratios = [pair.ratio for pair in measured]
    return {
        "model": model,
        "requests": requests,
        "pairs": pairs,
        "tokens_per_pair": requests * max_tokens,
        "ratio": spread(ratios),
        "ratios": ratios,
        "gfcr_tokens_per_s": median(pair.tokens / pair.ours_s for pair in measured),
        "vllm_tokens_per_s": median(pair.tokens / pair.theirs_s for pair in measured),
        "goal": GOAL,
        "reached": median(ratios) >= GOAL,
    }


def text(found: dict[str, Any]) -> str:
    """The report in words."""
    ratio = found["ratio"]
    return (
        f"gfcr / vLLM's benchmark client: median {ratio['median']:.3f} ({ratio['min']:.3f} to "
        f"{ratio['max']:.3f}, {found['pairs']} pairs of {found['requests']} requests), goal "
        f"{found['goal']}\n{found['gfcr_tokens_per_s']:.0f} against "
        f"{found['vllm_tokens_per_s']:.0f} tokens/s through one server"
    )


def _server(changes: Mapping[str, Any]) -> EngineConfig:
    spec = {"name": "vllm_server", **changes}
    if spec["name"] != "vllm_server":
        raise ConfigError(f"engine.name={spec['name']}: leave it out, which is vllm_server.")
    return registry.build("engine", spec, where="engine")


def _requests(engine: ServerEngine, *, num: int, new: int, number: int) -> list[Request]:
    vocab, sampling = engine.folder.vocab, Sampling(max_tokens=new)
    prompts = [
        tuple(rng(0, "bench server", number, i).integers(0, vocab, PROMPT).tolist())
        for i in range(-(-num // GROUP))
    ]
    return [
        Request(
            id=f"bench-{number}-{i}",
            tokens=prompts[i // GROUP],
            sampling=sampling,
            seed=number * num + i,
            endless=True,
        )
        for i in range(num)
    ]


def _pair(engine: ServerEngine, requests: Sequence[Request], *, first: int) -> Pair:
    """Both ways; `first` says whether gfcr's comes first."""
    (server,) = engine.fleet.servers
    sides: dict[str, Callable[[], int]] = {
        "ours": lambda: _through(engine, requests),
        "theirs": lambda: drive(server.url, requests=requests),
    }
    asked = sum(request.sampling.max_tokens for request in requests)
    took: dict[str, float] = {}
    for name in sorted(sides, reverse=not first):
        server.forget_prefixes()
        began = time.perf_counter()
        tokens = sides[name]()
        took[name] = time.perf_counter() - began
        assert tokens == asked, f"{name}: {tokens} tokens for {asked}"
    return Pair(tokens=asked, ours_s=took["ours"], theirs_s=took["theirs"])


def _through(engine: ServerEngine, requests: Sequence[Request]) -> int:
    for request in requests:
        engine.submit(request)
    left, num = len(requests), 0
    while left:
        for delta in engine.step():
            left -= delta.finish is not None
            num += len(delta.logprobs)
    return num
