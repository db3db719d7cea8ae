"""Drafters that learn or adapt while vLLM servers run them, over what the servers report."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from gfcr.engine.base import EngineStats, Request
from gfcr.engine.drafting import Drafting
from gfcr.engine.server_fleet import Fleet
from gfcr.engine.server_reports import asked_for
from gfcr.engine.server_weights import Outbox
from gfcr.engine.server_wire import Event
from gfcr.engine.vllm_model import ModelFolder
from gfcr.errors import asking
from gfcr.speculation.base import Drafter, Law

_POLL_S: Final = 0.25
"""Seconds between two polls of the servers' counters."""
_HOOKS: Final = ("saw", "fresh_weights")
"""Methods that only a drafter that adapts or learns overrides; others are never polled for."""


@final
class ServerDrafting:
    """Tells the engine's drafter about requests and step counters, and sends its new weights."""

    def __init__(
        self,
        drafter: Drafter | None,
        *,
        fleet: Fleet,
        model: ModelFolder,
        max_length: int,
        exchange: Path,
    ) -> None:
        """Polls nothing before `open` is called.

        Args:
            drafter: the drafter that the servers run; None: there is none.
            fleet: the servers.
            model: the model that they serve.
            max_length: most tokens of a sequence.
            exchange: folder for weights, which the servers see under the same path.
        """
        self._drafting = Drafting(drafter, max_length=max_length, eos=model.eos)
        self._fleet, self._outbox = fleet, Outbox(exchange, name="draft")
        self._logprobs = asked_for(self._drafting.record, vocab=model.vocab)
        kind = type(drafter)
        self._steers = drafter is not None and any(
            getattr(kind, hook) is not getattr(Drafter, hook) for hook in _HOOKS
        )
        self._open = False
        self._drafts = 0
        self._then, self._looked_s = EngineStats(), time.monotonic()

    def open(self) -> None:
        """Starts polling: the servers are warm and have reset their counters."""
        self._open, self._looked_s = True, time.monotonic()

    def begin(self, request: Request) -> int:
        """Registers a request; returns the number of `logprobs` that it must ask for."""
        self._drafting.begin(request)
        return 0 if request.draft_budget == 0 else self._logprobs

    def emitted(self, request_id: str, *, tokens: tuple[int, ...], event: Event) -> None:
        """Records tokens that a request gained, with the law of those that were within its cap."""
        law, num = event.law, len(tokens)
        law = law and Law(ids_TM=law.ids_TM[:num], probs_TM=law.probs_TM[:num])
        self._drafting.emitted(request_id, tokens=tokens, law=law)

    def end(self, request_id: str) -> None:
        """Removes a request that has ended."""
        self._drafting.end(request_id)

    def look(self, *, running: int) -> None:
        """Reports the servers' counters to the drafter, and syncs new draft weights to them.

        Does so at most every `_POLL_S` seconds, and always when no request is running any more.
        """
        seconds = time.monotonic() - self._looked_s
        if not (self._steers and self._open) or (running and seconds < _POLL_S):
            return
        self._looked_s += seconds
        if not self._drafting.idle or not running:
            self._tell(running=running, seconds=seconds)
        drafter = self._drafting.drafter
        assert drafter is not None
        with asking("drafter"):
            fresh = drafter.fresh_weights()
        if fresh is not None:
            self._drafts += 1
            self._fleet.load_draft(self._outbox.pack(fresh, version=self._drafts))

    def _tell(self, *, running: int, seconds: float) -> None:
        now = self._fleet.counted()
        new, self._then = now - self._then, now
        # Every request of a step has one token that was not drafted.
        new = replace(new, generated_tokens=new.accepted_tokens + new.drafts)
        self._drafting.saw(new, running=running, seconds=seconds)
