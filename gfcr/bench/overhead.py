"""What the pipeline costs on top of bare `LLM.generate`, for the same requests.

Each pair makes one batch through the Pipeline (Generate, scoring, filters, ledger: everything but
the trainer) and gives the very requests it made, seeds included, to `LLM.generate` of the same
engine. Seeded sampling makes both generate the same tokens. The order alternates.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Any, cast, final

from gfcr import models
from gfcr.bench.demo_pipeline import GROUP, demo_pipeline
from gfcr.bench.rounds import local_engine, since, spread
from gfcr.engine.base import Engine, Request
from gfcr.engine.vllm import bare_generate
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import ConfigError
from gfcr.pipeline import Pipeline

GOAL = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One batch both ways."""

    tokens: int
    pipeline_s: float
    engine_s: float
    """Seconds of `pipeline_s` inside `engine.step`."""
    bare_s: float

    @property
    def ratio(self) -> float:
        """Pipeline tokens/s over bare tokens/s."""
        return self.bare_s / self.pipeline_s


@final
class _Recorder:
    """An engine that remembers the requests it is given."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.requests: list[Request] = []

    def submit(self, request: Request) -> None:
        self.requests.append(request)
        self._engine.submit(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def measure(
    *,
    model: str,
    pairs: int,
    requests: int,
    max_tokens: int,
    engine: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Measures `pairs` alternating pairs of `requests` requests.

    Args:
        model: its name or folder.
        pairs: to measure.
        requests: of each side.
        max_tokens: of a request.
        engine: settings of vLLM that are not its defaults.

    Raises:
        ConfigError: fewer than 5 pairs, fewer requests than one group, or no such setting.
    """
    if pairs < 5 or requests < GROUP:
        raise ConfigError(f"pairs={pairs}, requests={requests}: give at least 5 and {GROUP}.")
    config = local_engine(engine or {})
    folder = str(models.resolve(model))
    with closing(config.start(model=folder, seed=0)) as started:
        recorder = _Recorder(started)
        pipeline = demo_pipeline(
            cast("Engine", recorder),
            folder=folder,
            prompts=requests // GROUP,
            max_tokens=max_tokens,
        )
        bare = partial(bare_generate, cast("VllmEngine", started))
        forget = cast("VllmEngine", started).llm.reset_prefix_cache
        measured = [
            _pair(pipeline, recorder, bare=bare, forget=forget, pipeline_first=bool(n % 2))
            for n in range(pairs + 1)  # the first warms up
        ]
        pipeline.close()
    return _report(measured[1:], requests=requests, model=model)


def _pair(
    pipeline: Pipeline,
    recorder: _Recorder,
    *,
    bare: Callable[..., int],
    forget: Callable[[], Any],
    pipeline_first: bool,
) -> Pair:
    """One pair; to let the bare side go first, the batch is made once beforehand to know it."""
    state = pipeline.state_dict()
    bare_s, bare_tokens = 0.0, 0
    if not pipeline_first:
        _through(pipeline, recorder)
        pipeline.load_state_dict(state)
        forget()
        bare_s, bare_tokens = _timed(lambda: bare(requests=recorder.requests))
    forget()
    tokens, pipeline_s, engine_s = _through(pipeline, recorder)
    if pipeline_first:
        forget()
        bare_s, bare_tokens = _timed(lambda: bare(requests=recorder.requests))
    assert tokens == bare_tokens, f"{tokens} tokens through the pipeline, {bare_tokens} bare"
    return Pair(tokens=tokens, pipeline_s=pipeline_s, engine_s=engine_s, bare_s=bare_s)


def _through(pipeline: Pipeline, recorder: _Recorder) -> tuple[int, float, float]:
    recorder.requests.clear()
    before = pipeline.engine.stats()
    seconds, _ = _timed(pipeline.next_batch)
    spent = since(before, pipeline.engine.stats())
    return spent.generated_tokens, seconds, spent.busy_s


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def _report(pairs: list[Pair], *, requests: int, model: str) -> dict[str, Any]:
    ratios = [p.ratio for p in pairs]
    return {
        "model": model,
        "requests": requests,
        "pairs": len(pairs),
        "tokens_per_pair": fmean(p.tokens for p in pairs),
        "ratio": spread(ratios),
        "ratios": ratios,
        "pipeline_tokens_per_s": median(p.tokens / p.pipeline_s for p in pairs),
        "bare_tokens_per_s": median(p.tokens / p.bare_s for p in pairs),
        "outside_engine_share": median(1 - p.engine_s / p.pipeline_s for p in pairs),
        "goal": GOAL,
        "reached": median(ratios) >= GOAL,
    }


def text(found: dict[str, Any]) -> str:
    """The report in words."""
    ratio = found["ratio"]
    return (
        f"pipeline / bare LLM.generate: median {ratio['median']:.3f} ({ratio['min']:.3f} to "
        f"{ratio['max']:.3f}, {found['pairs']} pairs of {found['requests']} requests), goal "
        f"{found['goal']}\n{found['pipeline_tokens_per_s']:.0f} against "
        f"{found['bare_tokens_per_s']:.0f} tokens/s; {found['outside_engine_share']:.1%} of the "
        "pipeline's time is outside engine.step (scoring, filters, ledger, records)"
    )
