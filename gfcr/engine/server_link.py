"""One vLLM server: its process, requests in flight, loaded weights and counters."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.engine.base import EngineStats
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_process import ServerProcess
from gfcr.engine.server_reports import counters
from gfcr.engine.server_weights import Synced
from gfcr.engine.server_wire import Event, Events, LostServerError, Wire
from gfcr.errors import EngineError

_MOST_LOSSES: Final = 3
"""Consecutive losses without a single sampled token after which a server is given up."""
_LEAST: Final = 16  # tokens in `timeout_s`, of all requests, below which a server counts as hung


@final
@dataclass(frozen=True, kw_only=True)
class Drafts:
    """The speculation settings of a server."""

    method: str
    """Name of the speculation method in vLLM."""
    length: int
    """Most tokens of a draft."""


@final
class Server:
    """A server and its restarts, from the first start to the end of the engine."""

    def __init__(
        self,
        url: str,
        *,
        process: ServerProcess | None,
        events: Events,
        timeout_s: float,
        patience_s: float,
        drafts: Drafts | None = None,
    ) -> None:
        """Starts the server or connects to a running one; an event reports when it answers.

        Args:
            url: its address; empty for a process, which reports its own.
            process: the process of a server that gfcr starts; None: it is not restarted when lost.
            events: queue for what it reports.
            timeout_s: seconds of silence after which it counts as hung.
            patience_s: seconds it may take to start.
            drafts: the speculation settings it must have; None: it must not speculate.
        """
        self._drafts = drafts
        self.process, self._url = process, url.rstrip("/")
        self._events, self._timeout_s, self._patience_s = events, timeout_s, patience_s
        self.up = False
        """Whether it answers and has the policy's weights."""
        self.flights: dict[str, Flight] = {}
        """Requests that the server is working on, by key, the oldest first."""
        self.fixes: tuple[str, ...] = ()
        """Names of the vLLM repairs in force in the server."""
        self._has = ""
        """Digest of the weights that it was last known to have loaded."""
        self.heard_s = 0.0
        """Monotonic time of its latest tokens, or of its first request; earlier where it drips."""
        self._lost = 0
        self._then = self._now = self._gone = EngineStats()
        """Counters: of this start at its beginning and last poll; and the sum of earlier starts."""
        self._wire = self._begun()

    @property
    def url(self) -> str:
        """Its current address; empty until it is known."""
        return self._wire.url

    @property
    def name(self) -> str:
        """Key under which events concern the server itself; every start gets a new one."""
        return self._wire.name

    @property
    def total(self) -> EngineStats:
        """Its counters summed over all restarts; the last known values while it does not answer."""
        if self.up:
            with contextlib.suppress(LostServerError):  # the next step hears of it
                self._now = self._counted()
        return self._gone + self._now - self._then

    @property
    def late_s(self) -> float | None:
        """Seconds until it counts as hung; None while it has no requests."""
        return self.heard_s + self._timeout_s - time.monotonic() if self.flights else None

    def begin_again(self) -> None:
        """Restarts the server, or polls for one that gfcr did not start."""
        self._wire.close()  # it may still ask
        self._wire = self._begun()

    def meet(self, weights: Synced | None, *, draft: Synced | None) -> None:
        """Checks a server that has just answered, and syncs policy and draft weights to it.

        Raises:
            EngineError: it lacks gfcr's extension, or reports other weights than it was sent.
        """
        # A server that gfcr did not start has counted for others before this run.
        self._then = self._now = self._counted()
        told = self.told()
        self.fixes = tuple(told["fixes"])
        if self.process is None:
            self._check(told["drafts"])
        if weights is not None:
            self.load(weights)
        if draft is not None:
            self.load_draft(draft)
        # No request may reach the server before its weights are known to be the policy's.
        self.up = True

    def told(self) -> dict[str, Any]:
        """Returns repairs, weight digest and speculation settings, as `vllm_inside` has them."""
        return dict(self.call("gfcr_told"))

    def call(self, method: str, *args: str) -> Any:
        """Calls a method of `vllm_inside` in the server and returns its result."""
        try:
            told = self._wire.ask("/collective_rpc", {"method": method, "args": [*args]})
        except LostServerError:
            raise
        except EngineError as error:
            raise EngineError(
                f"the server at {self.url} does not know gfcr: start it as "
                f"docs/scale-out.md says. It answers: {error}"
            ) from error
        return told["results"][0]

    def send(self, flight: Flight, *, eos: Sequence[int], traced: bool) -> None:
        """Sends a request under `flight.key` and starts streaming its tokens."""
        # A server without requests owes no tokens: its time begins with the first one.
        if not self.flights:
            self.heard_s = time.monotonic()
        self.flights[flight.key] = flight
        self._wire.stream(flight.key, flight.body(eos=eos, traced=traced))

    def heard(self, event: Event, *, weights: Synced | None) -> None:
        """Notes how much the server answered, by the weights that it was given (or EngineError)."""
        if weights and (odd := {*event.policies} - {str(weights.version)}):
            raise EngineError(
                f"the server at {self.url} sampled under weights of version {min(odd)}, not "
                f"{weights.version}: it was started again, or another run uses it, too."
            )
        # A token buys only its share of the time-out, so that a server that drips counts as hung.
        bought_s = len(event.tokens) * self._timeout_s / _LEAST
        self.heard_s = min(time.monotonic(), self.heard_s + bought_s)
        self._lost = 0 if event.tokens else self._lost

    def forget(self, key: str, *, ended: bool) -> None:
        """Drops a request; the server aborts it unless it has `ended` there."""
        self.flights.pop(key, None)
        if not ended:
            self._wire.drop(key)

    def lose(self, why: str) -> list[Flight]:
        """Disconnects from a server that died or hangs; returns the requests in flight on it.

        Raises:
            EngineError: it was lost several times without sampling a token in between.
        """
        self._lost += 1
        if self._lost > _MOST_LOSSES:
            raise EngineError(
                f"the vLLM server at {self.url} was lost {self._lost} times without sampling a "
                f"token ({why}). {self._words()}"
            )
        flights = [*self.flights.values()]
        self.flights.clear()
        for flight in flights:
            flight.key = ""
        self._gone += self._now - self._then
        self._then = self._now = EngineStats()  # a restarted server counts from 0
        self.up, self._has = False, ""
        self._wire.close()
        return flights

    def load(self, weights: Synced) -> None:
        """Makes the server load weights: the delta if it has the base, otherwise all of them.

        Raises:
            EngineError: it refuses, reports other weights afterwards, or had another run's before.
        """
        has = self._ready()
        self._wire.ask("/start_weight_update", {})
        self._wire.ask("/update_weights", {"update_info": weights.update(has=has)})
        self._wire.ask("/finish_weight_update", {"weight_version": str(weights.version)})
        # Cached prefixes are of the policy before; dropped requests hold theirs for a moment.
        until = time.monotonic() + self._timeout_s
        while not self.forget_prefixes():
            if time.monotonic() > until:
                raise EngineError(f"the server at {self.url} is in use by others: give your own.")
            time.sleep(0.01)
        version = str(self._wire.ask("/weight_info").get("weight_version"))
        self._has = str(self.told()["digest"])
        if (version, self._has) != (str(weights.version), weights.digest):
            raise EngineError(
                f"the server at {self.url} says that its weights are of version {version}, "
                f"SHA-256 {self._has[:12]}, not {weights.version}, {weights.digest[:12]}."
            )

    def load_draft(self, draft: Synced) -> None:
        """Makes the server use new draft weights from its next step on, with requests in flight.

        Their KV cache keeps the old draft's entries; only prefixes no request uses are forgotten.

        Raises:
            EngineError: it refuses, as where the file has another digest than it was told.
        """
        told = draft.update(has="")
        self.call("gfcr_draft", told["path"], told["digest"])
        self.forget_prefixes()

    def _ready(self) -> str:
        """Ends a sync that another run left unfinished; returns the digest of the weights there."""
        told = self.told()
        if self._has and told["digest"] not in ("", self._has):  # empty: it was started again
            raise EngineError(
                f"the server at {self.url} had other weights than this run gave it, SHA-256 "
                f"{told['digest'][:12]}: another run uses it. Give each run a server of its own."
            )
        if told["open"]:  # that run was killed
            self._wire.ask("/finish_weight_update", {"weight_version": "unfinished"})
        return told["digest"]

    def forget_prefixes(self) -> bool:
        """Empties its prefix cache; returns whether it has, as no request holds a part of it."""
        return bool(self._wire.ask("/reset_prefix_cache", {})["success"])

    def count_anew(self) -> None:
        """Resets its counters, and empties its prefix cache."""
        self.forget_prefixes()
        self._then = self._now = self._counted()

    def asking(self, path: str, bodies: Sequence[dict[str, Any]]) -> Future[list[Any]]:
        """See `Wire.asking`."""
        return self._wire.asking(path, bodies)

    def close(self) -> None:
        """Ends the connection, and the server that gfcr started."""
        self.up = False
        self.flights.clear()
        self._wire.close()
        if self.process is not None:
            self.process.stop()

    def _begun(self) -> Wire:
        if (process := self.process) is not None:
            process.begin()
        wire = Wire(events=self._events, timeout_s=self._timeout_s)
        where = (lambda: process.url) if process else (lambda: self._url)
        wire.greet(where, failed=self._failed, patience_s=self._patience_s)
        return wire

    def _check(self, told: Mapping[str, Any] | None) -> None:
        """Checks that a server that gfcr did not start speculates as the strategy asks."""
        found = None if told is None else Drafts(method=told["method"], length=told["length"])
        if found != self._drafts:
            raise EngineError(
                f"the server at {self.url} drafts by {found or 'nothing'}, strategy.drafter asks "
                f"for {self._drafts or 'nothing'}: start it with the arguments that "
                "docs/scale-out.md tells, or change strategy.drafter."
            )

    def _failed(self) -> str:
        if self.process is None or self.process.alive:
            return ""
        return f"it ended as it started. {self._words()}"

    def _words(self) -> str:
        return self.process.last_words() if self.process else ""

    def _counted(self) -> EngineStats:
        return counters(str(self._wire.ask("/metrics")))
