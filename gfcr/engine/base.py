"""The engine protocol: what the pipeline asks of anything that generates tokens."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from math import isfinite
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from gfcr.handles import Scored
from gfcr.part import Part
from gfcr.speculation.base import Drafter, Weights
from gfcr.types import FinishReason, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One continuation to sample. To branch or resume, put the prefix behind the prompt."""

    id: str
    tokens: tuple[int, ...]
    """Prompt and any prefix of the completion; engines reuse the KV cache of known prefixes."""
    sampling: Sampling
    stop: tuple[int, ...] = ()
    """Token ids that end the request, besides the end-of-sequence token. The token is emitted."""
    seed: int | None = None
    priority: int = 0
    """Order of admission: requests with a lower number are decoded first."""
    draft_budget: int | None = None
    """Most draft tokens per verification; 0 turns speculation off, None leaves the drafter's."""
    prompt_id: str = ""
    """Task prompt that the request belongs to; drafters find what they remember by it."""
    slot: str = ""
    """Which of the prompt's samples the request is."""
    begun: int = 0
    """How many of `tokens`, at their end, earlier requests of the same continuation sampled, which
    goes on in this one: it was taken out of the engine, for new weights or for a later update."""
    endless: bool = False
    """Decodes on after the end-of-sequence token, up to the cap, so that an audit reaches positions
    that few completions reach by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Tokens one request gained in one engine step, and its end when `finish` is set."""

    request_id: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probs under the law actually sampled from (after temperature, top-p, top-k, min-p)."""
    version: int
    """Policy version of the weights that sampled them."""
    finish: FinishReason | None = None

    @property
    def problem(self) -> str | None:
        """Returns why the tokens cannot be trained on; None if they can."""
        if len(self.logprobs) != len(self.tokens):
            return f"{len(self.logprobs)} log-probs for {len(self.tokens)} tokens"
        if not all(map(isfinite, self.logprobs)):
            return f"log-probs that are not finite ({self.logprobs}): are the weights sound?"
        if self.finish not in (None, FinishReason.STOP, FinishReason.LENGTH):
            return f"it ended with finish={self.finish.value}"
        return None


def merged(deltas: Iterable[Delta]) -> list[Delta]:
    """Returns one delta for each request, with all that it gained, in the order of the first."""
    found: dict[str, Delta] = {}
    for delta in deltas:
        if (held := found.get(delta.request_id)) is not None:
            assert held.version == delta.version, "weights change between steps"
            tokens, logprobs = held.tokens + delta.tokens, held.logprobs + delta.logprobs
            delta = replace(delta, tokens=tokens, logprobs=logprobs)
        found[delta.request_id] = delta
    return [*found.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Counters since the engine was made; the difference of two gives what happened in between."""

    forward_passes: int = 0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    recomputed_tokens: int = 0
    """Prompt and earlier tokens of requests that were sent to a server a second time: computed
    again wherever no prefix cache held them."""
    drafts: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()
    """Accepted draft tokens by their place in the draft."""
    busy_s: float = 0.0
    """Seconds spent inside `step` (simulated seconds for the fake engine)."""
    decoding_s: float = 0.0
    """Seconds of the steps that `undrafted_s` is about."""
    undrafted_s: float = 0.0
    """Estimate of what they would have taken without drafts; see `gfcr.speculation.saving`."""
    weight_bytes: int = 0
    """Bytes of weight files written for servers at weight syncs."""
    weight_elements: int = 0
    """Elements of all weights, summed over syncs; `weights_changed` counts those that were sent."""
    weights_changed: int = 0
    by_server: tuple[int, ...] = ()
    """Tokens that each server sampled; empty for an engine of this process."""

    def __sub__(self, earlier: "EngineStats") -> "EngineStats":
        return self._with(earlier, sign=-1)

    def __add__(self, more: "EngineStats") -> "EngineStats":
        return self._with(more, sign=1)

    def _with(self, other: "EngineStats", *, sign: int) -> "EngineStats":
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return EngineStats(**{name: _sum(own, more, sign=sign) for name, own, more in pairs})


def _sum(own: Any, more: Any, *, sign: int) -> Any:
    if not isinstance(own, tuple):
        return own + sign * more
    # Of places one may know fewer: an engine counts none before its first draft.
    places: Any = zip_longest(cast(Any, own), more, fillvalue=0)
    return tuple(a + sign * b for a, b in places)


class Engine(Protocol):
    """Generates tokens step by step; owns the sampling copy of the policy."""

    @property
    def version(self) -> int:
        """Policy version of the weights now loaded: the number given at the last sync."""
        ...

    @property
    def max_length(self) -> int:
        """Most tokens (prompt and completion) one sequence may have."""
        ...

    def submit(self, request: Request) -> None:
        """Queues a request.

        Raises:
            EngineError: the request cannot fit into `max_length`.
        """
        ...

    def step(self) -> Sequence[Delta]:
        """Runs one scheduling and forward step; returns what each request gained."""
        ...

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drops requests at once; they emit nothing further. Unknown ids are ignored."""
        ...

    def limit(self, request_id: str, *, max_tokens: int) -> None:
        """Changes the token cap of a request in flight."""
        ...

    def score(
        self, sequences: Sequence[Sequence[int]], *, sampling: Sampling, top: int = 0
    ) -> list[Scored]:
        """Returns the log-probability of each token after the first, given those before it.

        Returns:
            One answer a sequence, of `len(sequence) - 1` places with the `top` likeliest tokens of
            each (or all, where there are fewer), under `sampling`'s temperature, of which 0 scores
            as 1 (filters such as top-p are not applied).
        """
        ...

    def update_weights(self, weights: "Weights", *, version: int) -> None:
        """Loads new policy weights and forgets everything computed with the old ones.

        Raises:
            EngineError: requests are in flight (their cache would mix two policies).
        """
        ...

    def stats(self) -> EngineStats:
        """Returns the counters so far."""
        ...

    def close(self) -> None:
        """Frees the engine's processes and memory; it cannot be used afterwards."""
        ...


@runtime_checkable
class Sleeper(Protocol):
    """An engine that can leave its memory to the trainer until the next weight sync."""

    def sleep(self) -> None:
        """Leaves its memory to others, if it was told to.

        Raises:
            EngineError: requests are in flight.
        """
        ...


class EngineConfig(Part):
    """An engine by name: a dataclass whose fields are its settings. The file name is the name."""

    needs_model: ClassVar[bool] = True
    """Whether it loads a model; False for engines that invent their tokens."""
    beside: ClassVar[bool] = False
    """Whether it generates in other processes, so that this one can train meanwhile."""
    alone: ClassVar[bool] = False
    """Whether it sets up `torch.distributed` in this process by itself."""

    @property
    def servers(self) -> int:
        """Number of server processes that the engine starts."""
        return 0

    def context(self, model: str) -> int | None:
        """Returns the most tokens (prompt and completion) of a sequence; None if it is not known.

        Args:
            model: folder of the model.
        """
        return None

    def check(self, drafter: Drafter | None) -> None:
        """Checks that the engine can run a drafter, before anything is started.

        Raises:
            ConfigError: it cannot.
        """

    @abstractmethod
    def start(self, *, model: str, seed: int, drafter: Drafter | None = None) -> Engine:
        """Starts the engine on a model folder.

        Args:
            model: the folder.
            seed: for everything that brings no seed of its own.
            drafter: proposes tokens for the engine to verify; None decodes without speculation.

        Raises:
            ConfigError: the drafter does not fit the model.
            EngineError: the model cannot be loaded or a setting does not fit it.
        """
