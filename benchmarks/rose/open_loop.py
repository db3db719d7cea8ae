"""A client that sends a trace's requests when they are due, whatever became of those before."""

import queue
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from benchmarks.rose.trace import Arrival
from gfcr.cluster.watch import Watch
from gfcr.engine.server_wire import Event, Events, Wire
from gfcr.errors import EngineError
from gfcr.seeds import rng, seed_of

_WARM: Final = "serve-warm"
_LAST_S: Final = 60.0
"""How long answers may take after the last request."""


@final
class OpenLoop:
    """Requests of a trace to a vLLM server; `run` it in a thread of its own."""

    def __init__(
        self, url: str, *, arrivals: Sequence[Arrival], watch: Watch, vocab: int, seed: int = 0
    ) -> None:
        """Sends nothing yet.

        Args:
            url: of the server.
            arrivals: when which request is sent.
            watch: is told of each.
            vocab: prompts are drawn from so many tokens, at random.
            seed: of prompts and samples.
        """
        self._arrivals, self._watch = arrivals, watch
        self._vocab, self._seed = vocab, seed
        self._events: Events = queue.SimpleQueue()
        self._wire = Wire(events=self._events, timeout_s=_LAST_S)
        self._wire.url = url
        self._flying = set[str]()
        self.failed: dict[str, str] = {}
        """Why requests were not answered."""
        self.answered = 0

    def warm_up(self) -> None:
        """Sends a request that nobody watches: the first one loads and connects.

        Raises:
            EngineError: it is not answered.
        """
        self._flying.add(_WARM)
        self._wire.stream(_WARM, self._body(_WARM, tokens=[0], output=1))
        self._hear(until=self._watch.clock() + _LAST_S, one=True)
        if self.failed or not self.answered:
            raise EngineError(f"what is served does not answer: {self.failed.pop(_WARM, 'late')}")
        self.answered = 0

    def run(self) -> None:
        """Sends all requests and hears their answers; those that come too late have failed."""
        began = self._watch.clock()
        try:
            for number, arrival in enumerate(self._arrivals):
                self._hear(until=began + arrival.at_s)
                self._send(f"serve-{self._seed}-{number}", arrival, due_s=began + arrival.at_s)
            last = self._watch.clock() + _LAST_S
            while self._flying and self._watch.clock() < last:
                self._hear(until=last, one=True)
            for name in [*self._flying]:
                self._fail(name, f"no answer within {_LAST_S:g} s")
        finally:
            self._wire.close()

    def _send(self, name: str, arrival: Arrival, *, due_s: float) -> None:
        draw = rng(self._seed, "serving prompt", name)
        tokens = [int(token) for token in draw.integers(0, self._vocab, arrival.prompt)]
        self._flying.add(name)
        # From when it was due on: a client that is late itself would leave its delay out.
        self._watch.arrived(name, prompt=arrival.prompt, due_s=due_s)
        self._wire.stream(name, self._body(name, tokens=tokens, output=arrival.output))

    def _body(self, name: str, *, tokens: list[int], output: int) -> Mapping[str, Any]:
        params = {
            "temperature": 1.0,
            "max_tokens": output,
            "seed": seed_of(self._seed, "serving", name),
            "detokenize": False,
            "ignore_eos": True,
        }
        return {"request_id": name, "token_ids": tokens, "sampling_params": params, "stream": True}

    def _hear(self, *, until: float, one: bool = False) -> None:
        while (left := until - self._watch.clock()) > 0:
            try:
                self._take(self._events.get(timeout=left))
            except queue.Empty:
                return
            if one:
                return

    def _take(self, event: Event) -> None:
        if event.key not in self._flying:
            return
        if why := event.refused or event.lost:
            self._fail(event.key, why)
            return
        self._watch.gained(event.key, tokens=len(event.tokens))
        if event.finish is not None:
            self.answered += 1
            self._end(event.key)

    def _fail(self, name: str, why: str) -> None:
        self.failed[name] = why
        self._end(name)

    def _end(self, name: str) -> None:
        self._flying.discard(name)
        self._watch.ended(name)
