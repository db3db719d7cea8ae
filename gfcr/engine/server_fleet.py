"""Several vLLM servers as one: routing, weight syncs, and recovery when a server is lost."""

import contextlib
import logging
import queue
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, final

from gfcr.engine.base import EngineStats
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_link import Server
from gfcr.engine.server_reports import Steps, by_request
from gfcr.engine.server_route import Placement
from gfcr.engine.server_weights import Synced
from gfcr.engine.server_wire import GENERATE, Event, Events, LostServerError
from gfcr.engine.vllm_inside import STEPS
from gfcr.errors import EngineError

_RETRY_S: Final = 0.01
_log: Final = logging.getLogger(__name__)


@final
class Fleet:
    """One server or more; requests in flight on a server that is lost continue on the others.

    A server of gfcr's is restarted meanwhile; any other is asked again at the next weight sync.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        events: Events,
        eos: Sequence[int],
        placement: Placement,
        taken: Callable[[Flight, Event], None],
    ) -> None:
        """Starts nothing by itself: see `start`.

        Args:
            servers: servers that are starting.
            events: queue of what the servers report.
            eos: tokens that end a request.
            placement: which server a request goes to.
            taken: called with each event of a request.
        """
        self.servers = [*servers]
        self.weights: Synced | None = None
        self.draft: Synced | None = None
        """Draft weights that replaced those the draft model started with; None before the first."""
        self.traced = False
        """Whether servers record their engine steps, see `steps`."""
        self._events, self._eos, self._taken = events, eos, taken
        self.placement = placement
        self._waiting: list[Flight] = []
        """Requests that no server has: none is up, or none has room."""
        self.recomputed = 0  # prompt and tokens of resumed requests
        """See `EngineStats.recomputed_tokens`."""
        self._sent = 0
        self._begun_at: dict[str, int] = {}
        """Tokens that each request had when it was sent, by key, while servers record steps."""
        self._begun = False

    def start(self) -> None:
        """Waits until all servers answer.

        Raises:
            EngineError: one does not start, or is not a server for gfcr.
        """
        self._await(lambda: all(s.up for s in self.servers))
        self._begun = True

    def send(self, flight: Flight) -> None:
        """Sends a request to where it fits best; it waits while no server takes it."""
        place = self.placement.choose(flight.request, servers=self.servers)
        if place is None:
            self._waiting.append(flight)
            return
        if flight.tokens:
            self.recomputed += len(flight.request.tokens) + len(flight.tokens)
        self._sent += 1
        # Late events of an earlier sending must not be taken for events of this one.
        flight.key = f"{flight.request.id}@{self._sent}"
        if self.traced:
            self._begun_at[flight.key] = len(flight.tokens)
        self.servers[place].send(flight, eos=self._eos, traced=self.traced)

    def forget(self, flight: Flight, *, ended: bool) -> None:
        """Drops a request; its server aborts it unless it has `ended` there."""
        self._waiting = [f for f in self._waiting if f is not flight]
        for server in self.servers:
            if flight.key in server.flights:
                server.forget(flight.key, ended=ended)

    def hear(self) -> None:
        """Handles the events that have come, waiting a limited time for the first one."""
        late = [s.late_s for s in self.servers if s.late_s is not None]
        soon = self._place_waiting()
        with contextlib.suppress(queue.Empty):
            # Silence is no event that ends the wait: what hangs or stalls is looked for in time.
            rest_s = _RETRY_S if soon else max(min([1.0, *late]), _RETRY_S)
            self._handle(self._events.get(timeout=rest_s))
        for _ in range(self._events.qsize()):  # nobody else takes from it
            self._handle(self._events.get())
        for server in self.servers:
            if server.late_s is not None and server.late_s <= 0:
                self._lose(server, "it says nothing any more")

    def load(self, weights: Synced) -> None:
        """Syncs weights to all servers; one that is restarting gets them once it is up.

        Raises:
            EngineError: a server reports other weights than those it was sent.
        """
        # A server that comes back while the others load is met with these weights.
        self.weights = weights
        self.placement.forget()
        gone = [s for s in self.servers if not s.up and s.process is None]
        self._all(lambda server: server.load(weights))
        for server in gone:
            server.begin_again()  # it may be there again
        self._await(lambda: any(s.up for s in self.servers))

    def load_draft(self, draft: Synced) -> None:
        """Syncs draft weights to all servers; one that is restarting gets them once it is up."""
        self.draft = draft
        self._all(lambda server: server.load_draft(draft))

    def ask(self, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        """Spreads requests that do not stream over the servers; answers are in the given order."""
        answers: dict[int, Any] = {}
        while left := [i for i in range(len(bodies)) if i not in answers]:
            self._await(lambda: bool(self.placement.scoring(self.servers)))
            up = self.placement.scoring(self.servers)
            shares = [left[n :: len(up)] for n in range(len(up))]
            # All servers are asked before any answer is awaited, so that they work side by side.
            asked = [
                server.asking(GENERATE, [bodies[i] for i in own])
                for server, own in zip(up, shares, strict=True)
            ]
            for server, own, told in zip(up, shares, asked, strict=True):
                with self._losing(server):
                    answers |= zip(own, told.result(), strict=True)
        return [answers[i] for i in range(len(bodies))]

    def counted(self) -> EngineStats:
        """Returns the sum of all servers' counters."""
        totals = [server.total for server in self.servers]
        by_server = tuple(total.generated_tokens for total in totals)
        return replace(sum(totals, EngineStats()), by_server=by_server)

    def count_anew(self) -> None:
        """Resets counters and prefix caches of all servers; one that is lost begins anew."""
        self._all(Server.count_anew)
        self.placement.forget()

    def steps(self) -> Mapping[str, Steps]:
        """Returns the steps recorded since the last call, by request id; see `traced`.

        Those of a server that was lost are gone.
        """
        sent, self._begun_at = self._begun_at, {}
        told: list[Sequence[Any]] = [()] * len(self.servers)
        for place, server in enumerate(self.servers):
            with self._losing(server):
                told[place] = server.call(STEPS) if server.up else ()
        return by_request(told, sent=sent)

    def close(self) -> None:
        """Stops the servers that gfcr started, side by side: each may take seconds to end."""
        with ThreadPoolExecutor(len(self.servers)) as threads:
            ended = [threads.submit(server.close) for server in self.servers]
        for each in ended:
            each.result()

    def _all(self, call: Callable[[Server], None]) -> None:
        """Calls the servers that are up, side by side: each takes as long as one alone."""
        up = [s for s in self.servers if s.up]
        with ThreadPoolExecutor(max(len(up), 1)) as threads:
            calls = [threads.submit(call, server) for server in up]
        for server, called in zip(up, calls, strict=True):
            with self._losing(server):
                called.result()

    # ------------------------------------------------------------ what servers say

    def _place_waiting(self) -> bool:
        """Sends waiting and evicted requests; returns whether to retry soon as some still wait."""
        for flight in self.placement.evicted(self.servers):
            self.forget(flight, ended=False)
            self._waiting.append(flight)
        waiting, self._waiting = self._waiting, []
        for flight in sorted(waiting, key=lambda f: f.request.priority):
            self.send(flight)
        return bool(self._waiting) and any(s.up for s in self.servers)

    def _await(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.hear()

    def _handle(self, event: Event) -> None:
        whose = (s for s in self.servers if event.key in s.flights or event.key == s.name)
        server = next(whose, None)
        if server is None:  # of a request that is gone, or from before a new start
            return
        if event.key == server.name:
            self._greeted(server, event)
        elif event.lost:
            self._lose(server, event.lost)
        else:
            server.heard(event, weights=self.weights)
            self._taken(server.flights[event.key], event)

    def _greeted(self, server: Server, event: Event) -> None:
        """Handles a server's first answer, or its failure to start.

        Raises:
            EngineError: the failed server is gfcr's own, or it had to be there from the beginning.
        """
        if event.up:
            with self._losing(server):
                server.meet(self.weights, draft=self.draft)
        elif server.process is not None or not self._begun:
            raise EngineError(f"the vLLM server at {server.url} does not start: {event.lost}")
        elif not any(s.up or s.process for s in self.servers):
            raise _all_lost(server, event.lost)

    def _lose(self, server: Server, why: str) -> None:
        """Restarts a server that was lost, and sends its requests in flight to the others.

        Raises:
            EngineError: gfcr did not start the server, and there is no other.
        """
        flights = server.lose(why)
        said = "the vLLM server at %s was lost (%s): "
        if server.process is not None:
            _log.error(said + "it is started again.", server.url, why)
            server.begin_again()
        elif not any(s.up or s.process for s in self.servers):
            raise _all_lost(server, why)
        else:
            _log.error(said + "the others go on.", server.url, why)
        for flight in flights:
            self.send(flight)

    @contextlib.contextmanager
    def _losing(self, server: Server) -> Generator[None]:
        try:
            yield
        except LostServerError as error:
            self._lose(server, str(error))


def _all_lost(server: Server, why: str) -> EngineError:
    return EngineError(
        f"the vLLM server at {server.url} was lost ({why}). It is not gfcr's to start: start it, "
        "and run the same command again, which goes on from the checkpoint."
    )
