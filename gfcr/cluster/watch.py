"""A serving client's view of its requests: those in flight, and the latencies of answered ones."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import final

from gfcr.cluster.gate import Gate
from gfcr.cluster.slack import Admission, Served


@final
class Watch:
    """Requests in flight, for an `Admission`, and latencies of answered requests, in seconds.

    The client's thread reports to it. If a gate is given, rollouts there learn of each change.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        gate: Gate | None = None,
        admission: Admission | None = None,
        keep: int = 100_000,
    ) -> None:
        """Starts with nothing in flight.

        Args:
            clock: time in seconds, the gate's clock.
            gate: the gate of the device that serves.
            admission: admission of rollouts to the device; without it the gate stays open.
            keep: number of latencies of each kind that are kept, the latest.
        """
        self.clock = clock
        self._gate, self._admission = gate, admission
        self.ttft_s: deque[float] = deque(maxlen=keep)
        """Time to first token of each request that has one."""
        self.tpot_s: deque[float] = deque(maxlen=keep)
        """Time of each later token; tokens that arrive together share the gap equally."""
        self._lock = threading.Lock()
        self._flying: dict[str, Served] = {}
        self._held: dict[str, int] = {}
        """Tokens of each request in flight, prompt included."""

    def arrived(self, name: str, *, prompt: int, due_s: float | None = None) -> None:
        """Records that a request is sent.

        Args:
            name: id of the request.
            prompt: number of tokens of its prompt.
            due_s: when it was to be sent, from which on it waits; now by default.
        """
        with self._lock:
            arrived_s = self.clock() if due_s is None else due_s
            self._flying[name] = Served(arrived_s=arrived_s, waiting=prompt)
            self._held[name] = prompt
            self._tell()

    def gained(self, name: str, *, tokens: int) -> None:
        """Records tokens that a request gained; one that is no longer in flight is ignored."""
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
        """Records that a request was answered or failed."""
        with self._lock:
            self._flying.pop(name, None)
            self._held.pop(name, None)
            self._tell()

    def served(self) -> list[Served]:
        """Returns copies of the requests in flight."""
        with self._lock:
            return [replace(served) for served in self._flying.values()]

    def _tell(self) -> None:
        if self._gate is None:
            return
        # Slack falls as time passes: its value at time 0 is the time at which it ends.
        served = self._flying.values()
        due_s = self._admission.slack_s(served, now=0.0) if self._admission else float("inf")
        self._gate.served(due_s=due_s, held=sum(self._held.values()))
