"""What a client knows of the requests that it has served: who waits, and how long each took."""

import threading
import time
from collections.abc import Callable
from typing import final

from gfcr.cluster.gate import Gate
from gfcr.cluster.slack import Admission, Served


@final
class Watch:
    """Requests in flight, for an `Admission`, and latencies of what was answered, in seconds.

    Told by the client's thread. Where a gate is given, each change is told to rollouts there.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        gate: Gate | None = None,
        admission: Admission | None = None,
    ) -> None:
        """Nothing is in flight.

        Args:
            clock: in seconds, that of the gate.
            gate: of the device that serves.
            admission: of rollouts there; without it the gate stays open.
        """
        self.clock = clock
        self._gate, self._admission = gate, admission
        self.ttft_s: list[float] = []
        """Of each request that was given a token."""
        self.tpot_s: list[float] = []
        """Of each token after the first; of several that come at once, each its part of the gap."""
        self._lock = threading.Lock()
        self._flying: dict[str, Served] = {}
        self._held: dict[str, int] = {}
        """Tokens of each in flight."""

    def arrived(self, name: str, *, prompt: int) -> None:
        """A request is sent.

        Args:
            name: of the request.
            prompt: tokens of its prompt.
        """
        with self._lock:
            self._flying[name] = Served(arrived_s=self.clock(), waiting=prompt)
            self._held[name] = prompt
            self._tell()

    def gained(self, name: str, *, tokens: int) -> None:
        """It was given tokens; one that is not in flight any more is nobody's."""
        with self._lock:
            served, now = self._flying.get(name), self.clock()
            if served is None or not tokens:
                return
            rest = tokens
            if served.last_s is None:
                self.ttft_s.append(now - served.arrived_s)
                rest -= 1
            gap = now - (served.last_s if served.last_s is not None else now)
            self.tpot_s += [gap / rest] * rest if rest else []
            served.last_s, served.waiting = now, 0
            self._held[name] += tokens
            self._tell()

    def ended(self, name: str) -> None:
        """It is answered, or failed."""
        with self._lock:
            self._flying.pop(name, None)
            self._held.pop(name, None)
            self._tell()

    def served(self) -> list[Served]:
        """Those in flight, as they are now."""
        with self._lock:
            return [
                Served(arrived_s=s.arrived_s, waiting=s.waiting, last_s=s.last_s)
                for s in self._flying.values()
            ]

    def _tell(self) -> None:
        if self._gate is None:
            return
        # Slack falls with time as time goes by: what is left of it at 0 is when it ends.
        served = self._flying.values()
        due_s = self._admission.slack_s(served, now=0.0) if self._admission else float("inf")
        self._gate.served(due_s=due_s, held=sum(self._held.values()))
