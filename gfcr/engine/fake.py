"""The fake engine: deterministic tokens and a simulated clock, for tests and simulation.

It follows the engine protocol to the letter (continuous batching, caps, aborts, versions), but
its tokens come from a script or from a toy distribution with exactly known probabilities.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, final

import numpy as np
from annotated_types import Interval, Len

from gfcr.engine import asked
from gfcr.engine.base import Delta, Engine, EngineConfig, EngineStats, Request, Scored, Weights
from gfcr.engine.drafting import Drafting, likeliest
from gfcr.engine.toy_law import toy_law
from gfcr.errors import ConfigError, EngineError
from gfcr.seeds import rng, seed_of
from gfcr.speculation.base import NOTHING, BuiltIn, Draft, Drafter, Row, Target
from gfcr.speculation.verify import Next, verify
from gfcr.types import FinishReason, Floats, Sampling

EOS: Final = 1

Script = Callable[[Request], Sequence[int]]
"""Returns all tokens that a request is to generate."""


@final
@dataclass(kw_only=True)
class Fake(EngineConfig):
    """Scripted or toy-distribution engine with a simulated clock; needs no model."""

    needs_model: ClassVar[bool] = False

    alphabet: Annotated[str, Len(1, 10_000)] = "0123456789+-=,?#"
    """Characters of the vocabulary, after the special tokens pad, eos, bos, unk (ids 0 to 3)."""
    mean_length: Annotated[float, Interval(ge=1, le=1e12)] = 12.0
    """Tokens; the toy distribution ends with probability 1 / mean_length at each one."""
    max_length: Annotated[int, Interval(ge=2, le=1000000)] = 1024
    max_running: Annotated[int, Interval(ge=1, le=100000)] = 256
    step_s: Annotated[float, Interval(ge=0, le=1000000.0)] = 0.01
    """Simulated seconds a forward pass costs, whatever its size."""
    token_s: Annotated[float, Interval(ge=0, le=1000000.0)] = 1e-5
    """Simulated seconds that each sampled or drafted token adds."""

    @property
    def vocab(self) -> int:
        """Size of the vocabulary, special tokens included."""
        return 4 + len(self.alphabet)

    def context(self, model: str) -> int:
        return self.max_length

    def start(self, *, model: str, seed: int, drafter: Drafter | None = None) -> Engine:
        """See `EngineConfig.start`; `model` only salts the toy distribution."""
        if drafter is not None:
            if isinstance(drafter.core, BuiltIn):
                raise ConfigError(
                    "the fake engine has no drafter built in: give one of gfcr's own, or a vllm "
                    "engine."
                )
            target = Target(folder=None, vocab=self.vocab, max_length=self.max_length)
            drafter.check(target)
        return FakeEngine(self, seed=seed_of(seed, model), drafter=drafter)


@dataclass(kw_only=True)
class _Running:
    request: Request
    rng: np.random.Generator
    script: Sequence[int] | None
    done: list[int] = field(default_factory=list[int])
    cap: int


@final
class FakeEngine:
    """Implements `engine.base.Engine` without a model."""

    def __init__(
        self,
        config: Fake,
        *,
        seed: int,
        script: Script | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        self._config, self._seed, self._script = config, seed, script
        self._drafting = Drafting(drafter, max_length=config.max_length, eos=(EOS,))
        self._told = False
        self._queue: list[_Running] = []
        self._stats = EngineStats()
        self.version, self.max_length = 0, config.max_length

    def submit(self, request: Request) -> None:
        if len(request.tokens) >= self.max_length:
            raise EngineError(
                f"request {request.id} has {len(request.tokens)} tokens; engine.max_length="
                f"{self.max_length} leaves no room for one more."
            )
        script = self._script(request) if self._script else None
        if request.seed is None:
            generator = rng(self._seed, request.id)
        else:
            generator = np.random.default_rng(request.seed)
        cap = request.sampling.max_tokens
        self._queue.append(_Running(request=request, rng=generator, script=script, cap=cap))
        # Requests that have begun keep their seats; priority orders those that wait.
        self._queue.sort(key=lambda r: (not r.done, r.request.priority))
        self._stats += EngineStats(prompt_tokens=len(request.tokens))
        self._drafting.begin(request)

    def step(self) -> Sequence[Delta]:
        """Adds a token to each running request, and the drafted ones that it accepts."""
        running = self._queue[: self._config.max_running]
        if not running:
            return ()
        drafts = self._draft(running)
        deltas = [self._advance(r, drafts.get(r.request.id, NOTHING)) for r in running]
        ended = [d.request_id for d in deltas if d.finish is not None]
        self._queue = [r for r in self._queue if r.request.id not in ended]
        for request_id in ended:
            self._drafting.end(request_id)
        self._report(deltas, drafts=drafts)
        return deltas

    def abort(self, request_ids: Iterable[str]) -> None:
        gone = dict.fromkeys(request_ids)
        self._queue = [r for r in self._queue if r.request.id not in gone]
        for request_id in gone:
            self._drafting.end(request_id)

    def limit(self, request_id: str, *, max_tokens: int) -> None:
        for running in self._queue:
            if running.request.id == request_id:
                running.cap = max_tokens

    def score(
        self, sequences: Sequence[Sequence[int]], *, sampling: Sampling, top: int = 0
    ) -> list[Scored]:
        heat = sampling.temperature or 1.0  # as vLLM
        sampling = replace(sampling, temperature=heat, top_p=1.0, top_k=0, min_p=0.0)
        return [self._scored(s, sampling=sampling, top=top) for s in sequences]

    def _scored(self, sequence: Sequence[int], *, sampling: Sampling, top: int) -> Scored:
        ends = range(1, len(sequence))
        laws = [self.probabilities(sequence[:t], sampling=sampling) for t in ends]
        with np.errstate(divide="ignore"):  # special tokens never occur
            law_TV = np.log(np.array(laws, np.float32)).reshape(-1, self._config.vocab)
        top_TK = np.argsort(-law_TV, axis=1, kind="stable")[:, :top]
        tokens_TC = np.column_stack([np.array(sequence[1:], int), top_TK])
        return Scored.parted(tokens_TC, logprobs_TC=np.take_along_axis(law_TV, tokens_TC, axis=1))

    def update_weights(self, weights: Weights, *, version: int) -> None:
        """See `Engine.update_weights`; the toy distribution moves with the version."""
        asked.check_still(len(self._queue))
        self.version = version

    def stats(self) -> EngineStats:
        return self._stats

    def close(self) -> None:
        self._queue.clear()

    def probabilities(self, context: Sequence[int], *, sampling: Sampling) -> Floats:
        """Returns the exact next-token distribution after `context`, shape (vocab,)."""
        return toy_law(
            self._seed,
            self.version,
            tuple(context[-2:]),
            letters=len(self._config.alphabet),
            mean_length=self._config.mean_length,
            sampling=sampling,
        )

    def _advance(self, running: _Running, draft: Draft) -> Delta:
        next_law, drafting = self._target(running), self._drafting
        tokens: list[int] = []
        laws: list[Floats] = []
        finish = None

        def target(more: Sequence[int]) -> Floats:
            laws.append(next_law(more))  # asked for once a token that is emitted, in order
            return laws[-1]

        for token in verify(draft, target=target, rng=running.rng, residual=drafting.exact):
            tokens.append(token)
            running.done.append(token)
            finish = self._finish(running)
            if finish is not None:
                break
        del laws[len(tokens) :]
        law = likeliest(laws, most=min(drafting.record, self._config.vocab))
        drafting.emitted(running.request.id, tokens=tokens, law=law)
        return Delta(
            request_id=running.request.id,
            tokens=tuple(tokens),
            logprobs=tuple(float(np.log(p[t])) for p, t in zip(laws, tokens, strict=True)),
            version=self.version,
            finish=finish,
        )

    def _finish(self, running: _Running) -> FinishReason | None:
        token = running.done[-1]
        if token in running.request.stop or (token == EOS and not running.request.endless):
            return FinishReason.STOP
        length = len(running.request.tokens) + len(running.done)
        full = len(running.done) >= running.cap or length >= self.max_length
        return FinishReason.LENGTH if full else None

    def _target(self, running: _Running) -> Next:
        """Returns a function from drafted tokens to the law of the token after them."""

        def scripted(more: Sequence[int]) -> Floats:
            script, position = running.script or (), len(running.done) + len(more)
            token = script[position] if position < len(script) else EOS
            return np.eye(1, max(token + 1, self._config.vocab), token)[0]

        def toy(more: Sequence[int]) -> Floats:
            context = (*running.request.tokens[-2:], *running.done[-2:], *more)
            return self.probabilities(context, sampling=running.request.sampling)

        return toy if running.script is None else scripted

    def _draft(self, running: Sequence[_Running]) -> dict[str, Draft]:
        drafting = self._drafting
        if drafting.drafter is None:
            return {}
        self._told = not drafting.idle
        drafting.set_pace(running=len(running) if self._told else 0)
        rows: list[Row] = []
        for r in running:
            tokens = np.array([*r.request.tokens, *r.done], np.int32)
            row = drafting.row(r.request.id, tokens_T=tokens, cap=r.cap)
            rows += [row] if row else []
        drafts = dict(zip([r.request_id for r in rows], drafting.propose(rows), strict=True))
        return {i: d for i, d in drafts.items() if d.tokens}

    def _report(self, deltas: Sequence[Delta], *, drafts: Mapping[str, Draft]) -> None:
        emitted = sum(len(d.tokens) for d in deltas)
        drafted = sum(len(d.tokens) for d in drafts.values())
        # A verification emits one token beyond those that it accepts.
        accepted = sum(len(d.tokens) - 1 for d in deltas if d.request_id in drafts)
        busy = self._config.step_s + self._config.token_s * (len(deltas) + drafted)
        made = EngineStats(
            forward_passes=1,
            generated_tokens=emitted,
            drafts=len(drafts),
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            busy_s=busy,
        )
        self._stats += made
        if self._drafting.drafter is not None and self._told:
            self._stats += self._drafting.saw(made, running=len(deltas), seconds=busy)
