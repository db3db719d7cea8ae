"""One vLLM server: its process, what is in flight on it, its weights, and what it has counted."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.engine.server_flight import Flight
from gfcr.engine.server_metrics import Counted
from gfcr.engine.server_process import ServerProcess
from gfcr.engine.server_weights import Synced
from gfcr.engine.server_wire import Events, LostServerError, Wire
from gfcr.errors import EngineError

_FRUITLESS: Final = 3
"""Times that a server may be lost without a token in between."""


@final
@dataclass(frozen=True, kw_only=True)
class Drafts:
    """How a server speculates."""

    method: str
    """As vLLM calls it."""
    length: int
    """Most tokens of a draft."""


@final
class Server:
    """A server, from its start to its end, however often it is started in between."""

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
        """Begins to start it, or to ask one that is there; an event tells when it answers.

        Args:
            url: where it is; of a process, it says so itself.
            process: of a server that gfcr starts; another is not started again.
            events: for what it says.
            timeout_s: how long it may say nothing before it counts as hung.
            patience_s: how long it may take until it answers.
            drafts: how it must speculate; None: not at all.
        """
        self._drafts = drafts
        self.process, self._url = process, url.rstrip("/")
        self._events, self._timeout_s, self._patience_s = events, timeout_s, patience_s
        self.up = False
        """Whether it answers and has the policy's weights."""
        self.flights: dict[str, Flight] = {}
        """What is on the wire."""
        self.fixes: tuple[str, ...] = ()
        """Repairs of vLLM in force there."""
        self._has = ""
        """Digest of the weights it was last seen to have."""
        self.heard_s = 0.0
        """When it last said something, or was sent something while it had nothing."""
        self._lost = 0
        self._then = self._now = self._gone = Counted()
        """Of this server when it began and when it was last asked, and of those before it."""
        self._wire = self._begun()

    @property
    def url(self) -> str:
        """Where it is now; empty until that is known."""
        return self._wire.url

    @property
    def name(self) -> str:
        """Under which events tell of it; another after each start."""
        return self._wire.name

    @property
    def total(self) -> Counted:
        """What it has counted, of all its lives; as last known where it does not answer."""
        if self.up:
            with contextlib.suppress(LostServerError):  # the next step hears of it
                self._now = self._counted()
        return self._gone.plus(self._now.since(self._then))

    @property
    def late_s(self) -> float | None:
        """Seconds until it counts as hung; None where nothing is expected of it."""
        return self.heard_s + self._timeout_s - time.monotonic() if self.flights else None

    def begin_again(self) -> None:
        """Starts it again, or asks whether it is there again."""
        self._wire.close()  # it may still ask
        self._wire = self._begun()

    def meet(self, weights: Synced | None, *, draft: Synced | None) -> None:
        """It answers: asks what it is, and loads the policy's weights and the draft's.

        Raises:
            EngineError: it is not a server for gfcr, or has other weights than it was given.
        """
        self._then = self._now = self._counted()
        told = self.told()
        self.fixes = tuple(told["fixes"])
        if self.process is None:
            self._check(told["drafts"])
        if weights is not None:
            self.load(weights)
        if draft is not None:
            self.load_draft(draft)
        self.up = True

    def told(self) -> dict[str, Any]:
        """What gfcr's part in the server says of it, see `vllm_inside`."""
        return dict(self.call("gfcr_told"))

    def call(self, method: str, *args: str) -> Any:
        """What `vllm_inside` answers there."""
        asked = {"method": method, "args": [*args]}
        try:
            return self._wire.ask("/collective_rpc", asked)["results"][0]
        except LostServerError:
            raise
        except EngineError as error:
            raise EngineError(
                f"the server at {self.url} does not know gfcr: start it as "
                f"docs/scale-out.md says. It answers: {error}"
            ) from error

    def send(self, flight: Flight, *, eos: Sequence[int], traced: bool) -> None:
        """Begins a request under `flight.key`."""
        if not self.flights:
            self.heard_s = time.monotonic()
        self.flights[flight.key] = flight
        self._wire.stream(flight.key, flight.body(eos=eos, traced=traced))

    def heard(self, *, tokens: int) -> None:
        """It has said something."""
        self.heard_s = time.monotonic()
        self._lost = 0 if tokens else self._lost

    def forget(self, key: str, *, ended: bool) -> None:
        """Hears no more of a request; the server aborts what it has not ended."""
        self.flights.pop(key, None)
        if not ended:
            self._wire.drop(key)

    def lose(self, why: str) -> list[Flight]:
        """It died or hangs: returns what was in flight on it.

        Raises:
            EngineError: it does so again and again.
        """
        self._lost += 1
        if self._lost > _FRUITLESS:
            raise EngineError(
                f"the vLLM server at {self.url} was lost {self._lost} times without sampling a "
                f"token ({why}). {self._words()}"
            )
        flights = [*self.flights.values()]
        self.flights.clear()
        for flight in flights:
            flight.key = ""
        self._gone = self._gone.plus(self._now.since(self._then))
        self._then = self._now = Counted()
        self.up, self._has = False, ""
        self._wire.close()
        return flights

    def load(self, weights: Synced) -> None:
        """Has the server load weights; all of them, where it does not take what changed.

        Raises:
            EngineError: it does not, or says that it has others.
        """
        by_delta = bool(weights.base) and weights.base == self._has
        try:
            self._load(weights, has=self._has)
        except LostServerError:
            raise
        except EngineError:
            if not by_delta:
                raise
            self._load(weights, has="")  # it was started again, and nobody noticed
        self._has = weights.digest

    def load_draft(self, draft: Synced) -> None:
        """Has the server draft with other weights from its next step on, whatever is in flight.

        What it holds of prompts is as the draft before saw them, where it may not forget them.

        Raises:
            EngineError: it does not.
        """
        told = draft.update(has="")
        found = self.call("gfcr_draft", told["path"], told["digest"])["digest"]
        if found != draft.digest:
            raise EngineError(f"the server at {self.url} drafts with {found}, not {draft.digest}.")
        self.forget_prefixes()

    def _load(self, weights: Synced, *, has: str) -> None:
        self._wire.ask("/start_weight_update", {})
        self._wire.ask("/update_weights", {"update_info": weights.update(has=has)})
        self._wire.ask("/finish_weight_update", {"weight_version": str(weights.version)})
        self.forget_prefixes()
        version = str(self._wire.ask("/weight_info").get("weight_version"))
        digest = str(self.told().get("digest"))
        if (version, digest) != (str(weights.version), weights.digest):
            raise EngineError(
                f"the server at {self.url} says that its weights are of version {version}, "
                f"SHA-256 {digest[:12]}, not {weights.version}, {weights.digest[:12]}."
            )

    def forget_prefixes(self) -> None:
        """Empties its prefix cache."""
        self._wire.ask("/reset_prefix_cache", {})

    def count_anew(self) -> None:
        """Begins to count."""
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
        process = self.process
        if process is not None:
            process.begin()
        wire = Wire(events=self._events, timeout_s=self._timeout_s)
        where = (lambda: process.url) if process else (lambda: self._url)
        wire.greet(where, failed=self._failed, patience_s=self._patience_s)
        return wire

    def _check(self, told: Mapping[str, Any] | None) -> None:
        """Vouches that a server of somebody's speculates as the run says."""
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

    def _counted(self) -> Counted:
        return Counted.parse(str(self._wire.ask("/metrics")))
