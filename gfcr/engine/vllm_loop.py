"""The loop on a vLLM engine core: requests in, tokens out, weights and drafter within reach.

The scheduler's outputs are read directly, without vLLM's detokenizing front end: its per-token
dictionaries and process-wide metrics are not needed, and each engine keeps counters of its own.
"""

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np

from gfcr.engine import asked
from gfcr.engine.base import Delta, EngineStats, Request, Scored, Weights
from gfcr.engine.drafting import Drafting
from gfcr.engine.vllm_model import ModelFolder, drafts_of
from gfcr.engine.vllm_sleep import Sleep
from gfcr.engine.vllm_speculation import Speculation
from gfcr.errors import EngineError
from gfcr.process.environment import left_frozen
from gfcr.speculation.base import Drafter
from gfcr.types import FinishReason, Sampling

SCORE: Final = "gfcr:score:"
"""Prefix of the ids of scoring requests."""

FIRST: Final = -(2**31)
"""Priority of scoring requests: ahead of any rollout."""

FINISH: Final = (
    FinishReason.STOP,
    FinishReason.LENGTH,
    FinishReason.ABORTED,
    FinishReason.ERROR,
    FinishReason.HALTED,
)
"""Finish reasons in the order of vLLM's numbers: stop, length, abort, error, repetition."""

Translate: TypeAlias = Callable[..., Any]
"""Converts requests to vLLM's type; the caller gives it, so that no vllm is imported here.

Returns an `EngineCoreRequest` that reports `logprobs` of the likeliest tokens. With a `score` it
reports those of its prompt, and so many of the likeliest, as well.

Raises:
    EngineError: vLLM refuses the request.
"""


@final
class VllmEngine:
    """Implements `Engine` and `Sleeper` by vLLM in this process.

    At temperature 0 log-probs are those of temperature 1 without filters.
    """

    fixes: tuple[str, ...]
    """Repairs of vLLM in force, see `gfcr.engine.vllm_fixes`."""

    _open: ClassVar["VllmEngine | None"] = None

    def __init__(
        self,
        llm: Any,
        *,
        folder: ModelFolder,
        max_length: int,
        fixes: tuple[str, ...],
        translate: Translate,
        drafter: Drafter | None,
        sleep: int = 0,
    ) -> None:
        self.llm: Any = llm
        self._core: Any = llm.llm_engine.engine_core.engine_core
        self.folder = folder
        self.version, self.max_length = 0, max_length
        self._vocab: int = llm.model_config.get_vocab_size()
        self._check = partial(asked.check, vocab=self._vocab, max_length=max_length)
        self.fixes = fixes
        self._translate = translate
        self._live: dict[str, tuple[int, ...]] = {}
        self._scores: dict[str, Scored] = {}
        self._held: list[Delta] = []
        self._count = EngineStats()
        self._drafting = Drafting(drafter, max_length=max_length, eos=folder.eos)
        self._speculation = Speculation(
            self._drafting, core=self._core, runner=self._runner, vocab=self._vocab
        )
        self._sleep = Sleep(llm, runner=self._runner, level=sleep)
        VllmEngine._open = self
        self._warm_up()

    @staticmethod
    def check_alone() -> None:
        """Checks that no other engine runs in this process.

        Raises:
            EngineError: one does. vLLM's process groups are global: closing one breaks the other.
        """
        if VllmEngine._open is not None:
            raise EngineError(
                f"this process already runs an engine on '{VllmEngine._open.folder.path}': "
                "close() it before the next start."
            )

    def submit(self, request: Request) -> None:
        if request.id in self._live:
            raise EngineError(f"request id '{request.id}' is in flight: give each request its own.")
        self._check(request.id, tokens=request.tokens, new=request.sampling.max_tokens)
        self._send(request)
        self._drafting.begin(request)

    def step(self) -> Sequence[Delta]:
        if not self._live and not self._held:
            return ()
        begun = time.perf_counter()
        held, self._held = self._held, []
        deltas = held + self._advance() if self._live else held
        self._count += EngineStats(busy_s=time.perf_counter() - begun)
        return deltas

    def abort(self, request_ids: Iterable[str]) -> None:
        named = dict.fromkeys(request_ids)  # in order: drafters learn of ends one by one
        gone = [i for i in named if self._live.pop(i, None) is not None]
        self._core.abort_requests(gone)
        for i in gone:
            self._drafting.end(i)
        # Tokens that nobody hears of would be in no bin of the ledger.
        unheard = sum(len(d.tokens) for d in self._held if d.request_id in named)
        self._count -= EngineStats(generated_tokens=unheard)
        self._held = [d for d in self._held if d.request_id not in named]

    def limit(self, request_id: str, *, max_tokens: int) -> None:
        """See `Engine.limit`. A cap already reached ends the request with its next token."""
        if request_id not in self._live:
            return
        self._check(request_id, tokens=self._live[request_id], new=max_tokens)
        running = self._core.scheduler.requests[request_id]
        # vLLM 0.32.0 holds the cap twice, and its stop check reads the request's own.
        running.max_tokens = running.sampling_params.max_tokens = max_tokens

    def score(
        self, sequences: Sequence[Sequence[int]], *, sampling: Sampling, top: int = 0
    ) -> list[Scored]:
        """See `Engine.score`. Computed afresh, never from the prefix cache.

        Temperature 0 scores as temperature 1, like the log-probs of greedy tokens. Requests in
        flight advance meanwhile; what they gain comes with the next `step`.
        """
        top = min(top, self._vocab)
        # vLLM samples at least one token for a request, which `_delta` throws away.
        one = Sampling(max_tokens=1, temperature=sampling.temperature or 1.0)
        scoring: list[Request] = []
        for i, tokens in enumerate(sequences):
            self._check(f"score {i}", tokens=tokens, new=0)
            scoring.append(
                Request(id=f"{SCORE}{i}", tokens=tuple(tokens), sampling=one, priority=FIRST)
            )
        queued = [self._ask(r, score=top) for r in scoring if len(r.tokens) > 1]
        self._scores = {}
        none = np.zeros((0, top + 1))
        for each in queued:
            self._add(each)
        while len(self._scores) < len(queued):
            self._held += self._advance()
        return [self._scores.get(r.id, Scored.parted(none, logprobs_TC=none)) for r in scoring]

    def update_weights(self, weights: Weights, *, version: int) -> None:
        """See `Engine.update_weights`. Names are those of the checkpoint (transformers)."""
        # Held tokens are of the old policy, and would come under the new version at the next step.
        asked.check_still(len(self._live.keys() | {d.request_id for d in self._held}))
        # Both the check and vLLM read all of it, and a generator can be read only once.
        items = list(weights)
        asked.check_whole((name for name, _ in items), folder=self.folder)
        with self._sleep.loading():
            try:
                self._runner.get_model().load_weights(items)
            except (AssertionError, AttributeError, KeyError, RuntimeError, ValueError) as error:
                raise EngineError(
                    f"vLLM refused the new weights ({type(error).__name__}: {error}). The names "
                    "and shapes must be those of the checkpoint; start the engine again."
                ) from error
            # With 64 cached tokens of the old policy log-probs were off by 0.37.
            if not self._core.reset_prefix_cache():
                raise EngineError("the prefix cache is in use and holds the old policy's values.")
        self.version = version

    def sleep(self) -> None:
        asked.check_still(len(self._live))
        self._sleep.sleep()

    def stats(self) -> EngineStats:
        """See `Engine.stats`. Scoring counts in `forward_passes` and prompt tokens only."""
        return self._count

    def close(self) -> None:
        """See `Engine.close`. The process may start another engine afterwards."""
        if self._core is None:
            return
        self._speculation.close()
        with left_frozen():
            self.llm.llm_engine.engine_core.shutdown()
        self._live.clear()
        self._core = self.llm = VllmEngine._open = None
        gc.collect()

    @property
    def _runner(self) -> Any:
        worker = self.llm.llm_engine.model_executor.driver_worker
        return getattr(worker, "worker", worker).model_runner

    def _ask(self, request: Request, *, score: int | None = None) -> Any:
        # Drafters do not learn from requests that may not be drafted for.
        record = 0 if score is not None or request.draft_budget == 0 else self._speculation.record
        eos = () if request.endless else self.folder.eos
        return self._translate(self.llm, request, eos=eos, score=score, logprobs=record)

    def _send(self, request: Request) -> None:
        self._add(self._ask(request))
        self._live[request.id] = request.tokens

    def _add(self, queued: Any) -> None:
        self._sleep.check()
        self._core.add_request(*self._core.preprocess_add_request(queued))

    def _advance(self) -> list[Delta]:
        was, running, begun = self._count, len(self._live), time.perf_counter()
        self._speculation.before(running=running)
        by_client, executed = self._core.step_fn()
        # This hands the drafts to the scheduler, without which none is ever verified.
        self._core.post_step(model_executed=executed)
        self._count += EngineStats(forward_passes=int(executed))
        deltas: list[Delta] = []
        if (outputs := by_client.get(0)) is not None:
            self._count += drafts_of(outputs.scheduler_stats)
            deltas = [d for o in outputs.outputs if (d := self._delta(o)) is not None]
            self._count += EngineStats(generated_tokens=sum(len(d.tokens) for d in deltas))
        seconds = time.perf_counter() - begun
        new = self._count - was
        self._count += self._speculation.after(running=running, new=new, seconds=seconds)
        return deltas

    def _delta(self, output: Any) -> Delta | None:
        if (filled := output.prefill_stats) is not None:
            prompt, cached = filled.num_prompt_tokens, filled.num_cached_tokens
            self._count += EngineStats(prompt_tokens=prompt, cached_prompt_tokens=cached)
        request_id: str = output.request_id
        if request_id not in self._live:
            found = output.new_prompt_logprobs_tensors
            if found is not None:
                tokens_TC = found.logprob_token_ids.numpy()
                scored = Scored.parted(tokens_TC, logprobs_TC=found.logprobs.numpy())
                self._scores[request_id] = scored
            return None
        tokens, logprobs, finish = tuple(output.new_token_ids), output.new_logprobs, None
        self._speculation.emitted(request_id, tokens=tokens, logprobs=logprobs)
        if output.finish_reason is not None:
            finish = FINISH[int(output.finish_reason)]
            del self._live[request_id]
            self._drafting.end(request_id)
        return Delta(
            request_id=request_id,
            tokens=tokens,
            logprobs=tuple(logprobs.logprobs[: len(tokens), 0].tolist()) if logprobs else (),
            version=self.version,
            finish=finish,
        )

    def _warm_up(self) -> None:
        """Runs what vLLM compiles at first use, which no caller's clock and no drafter sees."""
        sampling = Sampling(max_tokens=min(8, self.max_length - 1))
        for i in range(2):
            self._send(Request(id=f"warm-{i}", tokens=(0,), sampling=sampling, seed=i))
        while self._live:
            self._advance()
        self._core.reset_prefix_cache()
        self._count = EngineStats()
        self._speculation.open()
