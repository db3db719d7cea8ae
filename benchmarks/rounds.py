"""One round of rollouts with the drafter on or off, through the pipeline, with what it took.

Both sides run on one engine that was started with the drafter. The side without drafts asks for a
draft budget of 0, which also keeps its rollouts out of the drafter's memory.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast, final

from gfcr import registry
from gfcr.engine.base import Delta, Engine, EngineConfig, EngineStats, Request
from gfcr.errors import ConfigError
from gfcr.pipeline import Pipeline

if TYPE_CHECKING:
    import torch

TAIL: Final = 8
"""Requests left from which a round is in its tail."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Tokens, seconds and target forward passes of a round or of a part of it."""

    tokens: int
    seconds: float
    cpu_s: float
    """Processor seconds of this process, all threads: steadier than time on a shared machine."""
    passes: int

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Tokens a processor second."""
        return self.tokens / self.cpu_s

    @property
    def tokens_per_pass(self) -> float:
        """Over all requests in the pass."""
        return self.tokens / self.passes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round took."""

    whole: Part
    tail: Part | None
    """The end of the round, see `Gate.tail`."""
    spent: EngineStats


@final
class Gate:
    """An engine that runs at most so many requests at a time, and knows when its tail began."""

    def __init__(self, engine: Engine, *, running: int, draft: bool) -> None:
        self._engine, self._running, self._draft = engine, running, draft
        self.begin()

    def begin(self) -> None:
        """Begins a round: nothing is in its tail yet."""
        self._waiting: deque[Request] = deque()
        self._live: set[str] = set()
        self._tail: Counter[str] = Counter()
        self.tail_from: _Mark | None = None
        self.ended: _Mark | None = None

    def submit(self, request: Request) -> None:
        """Keeps a request until there is a place for it."""
        self._waiting.append(request if self._draft else replace(request, draft_budget=0))

    def step(self) -> Sequence[Delta]:
        """Fills the places that are free, and steps the engine."""
        while self._waiting and len(self._live) < self._running:
            request = self._waiting.popleft()
            self._live.add(request.id)
            self._engine.submit(request)
        if self.tail_from is None and len(self._live) + len(self._waiting) <= TAIL:
            self.tail_from = _mark(self._engine)
        deltas = self._engine.step()
        self._live -= {d.request_id for d in deltas if d.finish is not None}
        if self.tail_from is not None:
            self._tail.update({d.request_id: len(d.tokens) for d in deltas})
        self.ended = _mark(self._engine)
        return deltas

    @property
    def tail(self) -> Part | None:
        """Returns what it took from when `TAIL` requests were left, in the longest one's tokens.

        Not in all tokens: how many share the tail's passes is chance. None where more than that
        many ended in the last step, as they do at a cap that most of them reach.
        """
        if not (self.tail_from and self.ended):
            return None
        return replace(_part(self.tail_from, self.ended), tokens=max(self._tail.values()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def play(pipeline: Pipeline, *, gate: Gate) -> Round:
    """Makes the next batch of a pipeline whose engine is the gate."""
    gate.begin()
    start = _mark(pipeline.engine)
    pipeline.next_batch()
    end = _mark(pipeline.engine)
    spent = end.stats - start.stats
    return Round(whole=_part(start, end), tail=gate.tail, spent=spent)


def answered(engine: Engine, requests: Iterable[Request]) -> int:
    """Steps an engine until it has answered all requests; returns how many log-probs came back."""
    left, num = 0, 0
    for request in requests:
        engine.submit(request)
        left += 1
    while left:
        for delta in engine.step():
            left -= delta.finish is not None
            num += len(delta.logprobs)
    return num


def acceptance_length(spent: Sequence[EngineStats]) -> float:
    """Tokens a verification, each counted once."""
    accepted, drafts = (sum(getattr(s, n) for s in spent) for n in ("accepted_tokens", "drafts"))
    return 1 + accepted / max(1, drafts)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": float(median(values)), "min": min(values), "max": max(values)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """A moment of an engine."""

    seconds: float
    cpu_s: float
    stats: EngineStats


def _mark(engine: Engine) -> _Mark:
    return _Mark(seconds=time.perf_counter(), cpu_s=time.process_time(), stats=engine.stats())


def _part(start: _Mark, end: _Mark) -> Part:
    spent = end.stats - start.stats
    return Part(
        tokens=spent.generated_tokens,
        seconds=end.seconds - start.seconds,
        cpu_s=end.cpu_s - start.cpu_s,
        passes=spent.forward_passes,
    )


def local_engine(changes: Mapping[str, Any]) -> EngineConfig:
    """The vLLM of this process, with some settings changed.

    Raises:
        ConfigError: there is no such setting, or the engine is another.
    """
    spec = {"name": "vllm", **changes}
    if spec["name"] != "vllm":
        raise ConfigError(
            f"engine.name={spec['name']}: this is measured in one process. Leave the name out, "
            "which is vllm; `gfcr bench server` measures a server."
        )
    return registry.build("engine", spec, where="engine")


def hush(engine: Engine, *, on: bool) -> None:
    """Keeps vLLM's own suffix drafter, the only one to do so, from learning undrafted rollouts."""
    proposer: Any = getattr(cast("Any", engine)._runner, "drafter", None)
    if type(proposer).__name__ == "SuffixDecodingProposer":
        held: dict[str, Any] = proposer.__dict__
        held.pop("propose", None)
        if on:
            proposer.propose = _nothing


def _nothing(length: int, batch: Any, sampled: Sequence[Any], **kwargs: Any) -> list[list[int]]:
    return [[] for _ in sampled]


def weights(path: Path) -> "dict[str, torch.Tensor]":
    """A model folder's or file's tensors by name."""
    import safetensors.torch

    library: Any = safetensors.torch  # partially typed
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return {name: tensor for f in files for name, tensor in library.load_file(f).items()}
