"""What the pipeline costs on top of bare `LLM.generate`, for the same requests.

Each pair makes one batch through the Pipeline (Generate, scoring, filters, ledger: everything but
the trainer) and gives the very requests it made, seeds included, to `LLM.generate` of the same
engine. Seeded sampling makes both generate the same tokens. The order alternates.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any, Final, cast, final

from benchmarks import pairs
from benchmarks.demo_pipeline import GROUP, demo_pipeline
from benchmarks.pairs import Pair, Plan, timed
from benchmarks.rounds import local_engine
from gfcr import models
from gfcr.engine.base import Engine, Request
from gfcr.engine.vllm import parameters
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.pipeline import Pipeline

GOAL: Final = 0.98


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


def measure(plan: Plan) -> dict[str, Any]:
    """Measures alternating pairs on the vLLM of this process.

    Raises:
        ConfigError: there is no such model or setting, or the engine is another.
    """
    config = local_engine(plan.engine)
    folder = str(models.resolve(plan.model))
    with closing(config.start(model=folder, seed=0)) as started:
        engine = cast("VllmEngine", started)
        recorder = _Recorder(started)
        pipeline = demo_pipeline(
            cast("Engine", recorder),
            folder=folder,
            prompts=plan.requests // GROUP,
            max_tokens=plan.max_tokens,
        )
        measured = [
            _pair(
                pipeline,
                recorder,
                bare=partial(bare_generate, engine),
                forget=engine.llm.reset_prefix_cache,
                pipeline_first=bool(n % 2),
            )
            for n in range(plan.pairs + 1)  # the first warms up
        ][1:]
        pipeline.close()
    outside = median(1 - pair.inside_s / pair.ours_s for pair in measured)
    found = pairs.data(measured, plan=plan, ours="pipeline", theirs="bare", goal=GOAL)
    return {**found, "outside_engine_share": outside}


def text(found: Mapping[str, Any]) -> str:
    """The report in words."""
    return (
        f"pipeline / bare LLM.generate: {pairs.words(found, ours='pipeline', theirs='bare')}; "
        f"{found['outside_engine_share']:.1%} of the pipeline's time is outside engine.step "
        "(scoring, filters, ledger, records)"
    )


def bare_generate(engine: VllmEngine, *, requests: Sequence[Request]) -> int:
    """Runs requests through vLLM's own `LLM.generate` and returns the tokens it made."""
    outputs = engine.llm.generate(
        [{"prompt_token_ids": list(r.tokens)} for r in requests],
        [parameters(r, eos=engine.folder.eos) for r in requests],
        use_tqdm=False,
    )
    return sum(len(o.outputs[0].token_ids) for o in outputs)


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
        bare_s, bare_tokens = timed(lambda: bare(requests=recorder.requests))
    forget()
    tokens, pipeline_s, engine_s = _through(pipeline, recorder)
    if pipeline_first:
        forget()
        bare_s, bare_tokens = timed(lambda: bare(requests=recorder.requests))
    assert tokens == bare_tokens, f"{tokens} tokens through the pipeline, {bare_tokens} bare"
    return Pair(tokens=tokens, ours_s=pipeline_s, theirs_s=bare_s, inside_s=engine_s)


def _through(pipeline: Pipeline, recorder: _Recorder) -> tuple[int, float, float]:
    recorder.requests.clear()
    before = pipeline.engine.stats()
    seconds, _ = timed(pipeline.next_batch)
    spent = pipeline.engine.stats() - before
    return spent.generated_tokens, seconds, spent.busy_s
