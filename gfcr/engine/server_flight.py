"""The state of one request to a vLLM server, which survives changed caps and lost servers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from gfcr.engine.base import Delta, Request
from gfcr.engine.server_wire import Event
from gfcr.types import FinishReason

_FINISH: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "repetition": FinishReason.HALTED,
}
_SEED_STEP: Final = 0x9E3779B97F4A7C15
"""Multiplier (2^64 over the golden ratio) that gives a resumed request another seed."""
EXTRA: Final = "gfcr"
"""Key in vLLM's `extra_args` under which `gfcr.engine.vllm_inside` finds its arguments."""


@final
@dataclass(kw_only=True)
class Flight:
    """A request and the tokens sampled for it so far."""

    request: Request
    version: int
    """Policy version under which it is answered: weights change when nothing is in flight."""
    cap: int
    """Most completion tokens, as last set by `Engine.limit`."""
    tokens: list[int] = field(default_factory=list[int])
    logprobs: int = 0
    """Number of log-probs asked for per token, see `server_reports`."""
    key: str = ""
    """Id under which the request was last sent, a new one each time; empty while no server has
    it."""

    def body(self, *, eos: Sequence[int], traced: bool) -> dict[str, Any]:
        """Returns the JSON body of the request, with the tokens sampled so far behind the prompt.

        Args:
            eos: tokens that end a request.
            traced: whether the server keeps a record of its steps.
        """
        # A resumed request gets a seed made of its own and its position: what it samples differs
        # from the continuation that was lost, but follows the same law.
        request, own, done = self.request, self.request.sampling, len(self.tokens)
        seed, budget = request.seed, request.draft_budget
        extra = {} if budget is None else {"draft_budget": budget}
        extra |= {"trace": self.key} if traced else {}
        return {
            "request_id": self.key,
            "token_ids": [*request.tokens, *self.tokens],
            "sampling_params": {
                "temperature": own.temperature,
                "top_p": own.top_p,
                "top_k": own.top_k,
                "min_p": own.min_p,
                "max_tokens": self.cap - done,
                "seed": None if seed is None else (seed + done * _SEED_STEP) % 2**63,
                "stop_token_ids": [*(() if request.endless else eos), *request.stop],
                "logprobs": self.logprobs,
                "detokenize": False,
                "ignore_eos": True,  # a server without a tokenizer knows none
                **({"extra_args": {EXTRA: extra}} if extra else {}),
            },
            "priority": request.priority,
            "stream": True,
        }

    def take(self, event: Event) -> Delta | None:
        """Appends an event's tokens up to the cap; returns None if there is nothing to report.

        Without a `finish` the server may still have ended the request, at an earlier cap that was
        raised since: see `is_short`.
        """
        room = max(self.cap - len(self.tokens), 0)
        tokens, logprobs = event.tokens[:room], event.logprobs[:room]
        self.tokens += tokens
        finish = self._finish(event, cut=len(event.tokens) > room)
        if not tokens and finish is None:
            return None
        return Delta(
            request_id=self.request.id,
            tokens=tokens,
            logprobs=logprobs,
            version=self.version,
            finish=finish,
        )

    def is_short(self, event: Event) -> bool:
        """Returns whether the server stopped at an earlier cap that has been raised since."""
        return event.finish == "length" and len(self.tokens) < self.cap

    def _finish(self, event: Event, *, cut: bool) -> FinishReason | None:
        if event.finish in (None, "length") or cut:
            return FinishReason.LENGTH if len(self.tokens) >= self.cap else None
        return _FINISH.get(event.finish or "", FinishReason.ERROR)
