"""The engine on vLLM servers: requests and tokens over HTTP, weight syncs through a file."""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from gfcr.engine import asked
from gfcr.engine.base import Delta, EngineStats, Request, Scored, Weights
from gfcr.engine.server_drafting import ServerDrafting
from gfcr.engine.server_fleet import Fleet
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_link import Server
from gfcr.engine.server_route import Placement
from gfcr.engine.server_weights import Outbox
from gfcr.engine.server_wire import Event, Events
from gfcr.engine.vllm_model import ModelFolder
from gfcr.errors import EngineError
from gfcr.speculation.base import Drafter
from gfcr.types import Sampling

if TYPE_CHECKING:
    import torch

_FIRST: Final = -(2**31)
"""Priority of scoring requests: ahead of any rollout."""


@final
class ServerEngine:
    """Implements `Engine` by vLLM servers.

    At temperature 0 log-probs are those of temperature 1 without filters.

    Requests in flight on a server that dies or hangs continue from the tokens they had. Lowered
    caps are enforced here, since a server may sample beyond one before it is told.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        events: Events,
        folder: ModelFolder,
        max_length: int,
        placement: Placement,
        exchange: Path,
        drafter: Drafter | None = None,
        deltas: "torch.dtype | None" = None,
    ) -> None:
        """Waits until all servers answer.

        Args:
            servers: servers that are starting.
            events: queue of what the servers report.
            folder: the model they serve.
            max_length: most tokens of a sequence.
            placement: which server a request goes to.
            exchange: folder for weights, under the same path for all servers; `close` deletes it.
            drafter: the drafter that they run.
            deltas: dtype in which weight deltas are sent, see `Outbox`.

        Raises:
            EngineError: a server does not start, or lacks gfcr's extension.
        """
        self.folder = folder
        self.fleet = Fleet(
            servers, events=events, eos=folder.eos, placement=placement, taken=self._taken
        )
        self._check = partial(asked.check, vocab=folder.vocab, max_length=max_length)
        self.max_length, self._drafts = max_length, drafter is not None
        self._exchange = exchange
        self._outbox = Outbox(exchange, deltas=deltas)
        self._live: dict[str, Flight] = {}
        self._deltas: list[Delta] = []
        """Deltas received since the last step."""
        self._generated = 0
        self._busy_s = 0.0
        self._drafting = ServerDrafting(
            drafter, fleet=self.fleet, model=folder, max_length=max_length, exchange=exchange
        )
        try:
            self.fleet.start()
            self._warm_up()
        except BaseException:
            self.fleet.close()  # logs stay
            raise

    @property
    def version(self) -> int:
        return self.fleet.weights.version if self.fleet.weights else 0

    @property
    def fixes(self) -> tuple[str, ...]:
        """Names of the vLLM repairs in force in all servers, see `gfcr.engine.vllm_fixes`."""
        first, *others = self.fleet.servers
        return tuple(fix for fix in first.fixes if all(fix in s.fixes for s in others))

    def submit(self, request: Request) -> None:
        if request.id in self._live:
            raise EngineError(f"request id '{request.id}' is in flight: give each request its own.")
        self._check(request.id, tokens=request.tokens, new=request.sampling.max_tokens)
        if self._drafts and request.sampling.min_p:
            raise EngineError(
                f"vLLM refused request '{request.id}': it knows no min_p together with speculation."
            )
        self._send(request, logprobs=self._drafting.begin(request))

    def step(self) -> Sequence[Delta]:
        """See `Engine.step`. Returns all deltas since the last step; none where all are silent."""
        begun = time.perf_counter()
        if self._live and not self._deltas:
            self.fleet.hear()
        if self._deltas:
            self._drafting.look(running=len(self._live))
        deltas, self._deltas = self._deltas, []
        self._busy_s += time.perf_counter() - begun
        return deltas

    def abort(self, request_ids: Iterable[str]) -> None:
        named = dict.fromkeys(request_ids)
        for flight in [self._live.pop(i) for i in named if i in self._live]:
            self.fleet.forget(flight, ended=False)
            self._drafting.end(flight.request.id)
        # Tokens that nobody hears of would be in no bin of the ledger.
        self._generated -= sum(len(d.tokens) for d in self._deltas if d.request_id in named)
        self._deltas = [d for d in self._deltas if d.request_id not in named]

    def limit(self, request_id: str, *, max_tokens: int) -> None:
        """See `Engine.limit`. A cap already reached ends the request with its next token."""
        flight = self._live.get(request_id)
        if flight is not None:
            self._check(request_id, tokens=flight.request.tokens, new=max_tokens)
            flight.cap = max(max_tokens, len(flight.tokens) + 1)

    def score(
        self, sequences: Sequence[Sequence[int]], *, sampling: Sampling, top: int = 0
    ) -> list[Scored]:
        """See `Engine.score`. Uses no prefix cache; temperature 0 scores as temperature 1."""
        heat, top = sampling.temperature or 1.0, min(top, self.folder.vocab)
        own = {"max_tokens": 1, "temperature": heat, "prompt_logprobs": top, "detokenize": False}
        for i, tokens in enumerate(sequences):
            self._check(f"score {i}", tokens=tokens, new=0)
        long = [tokens for tokens in sequences if len(tokens) > 1]
        bodies = [{"token_ids": [*t], "sampling_params": own, "priority": _FIRST} for t in long]
        answers = iter(self.fleet.ask(bodies))
        nothing = {"prompt_logprobs": [None]}
        told = [next(answers) if len(tokens) > 1 else nothing for tokens in sequences]
        return [_scored(t, tokens=s, top=top) for t, s in zip(told, sequences, strict=True)]

    def update_weights(self, weights: Weights, *, version: int) -> None:
        """See `Engine.update_weights`. Names are those of the checkpoint (transformers).

        Every server then reports the version and the digest of the weights that it has.
        """
        # Tokens that wait for the next `step` would be taken for the new policy's.
        asked.check_still(len(self._live.keys() | {d.request_id for d in self._deltas}))
        items = list(weights)
        asked.check_whole((name for name, _ in items), folder=self.folder)
        self.fleet.load(self._outbox.pack(items, version=version))

    def stats(self) -> EngineStats:
        """See `Engine.stats`. Sampled tokens are counted here, everything else by the servers."""
        return replace(
            self.fleet.counted(),
            # A server also samples tokens that nobody hears, and that the ledger is never told of.
            generated_tokens=self._generated,
            recomputed_tokens=self.fleet.recomputed,
            busy_s=self._busy_s,
            weight_bytes=self._outbox.sent_bytes,
            weight_elements=self._outbox.elements,
            weights_changed=self._outbox.changed,
        )

    def close(self) -> None:
        """See `Engine.close`. Servers that gfcr did not start keep running."""
        self._live.clear()
        self.fleet.close()
        shutil.rmtree(self._exchange, ignore_errors=True)

    def _send(self, request: Request, *, logprobs: int = 0) -> None:
        flight = Flight(
            request=request,
            version=self.version,
            cap=request.sampling.max_tokens,
            logprobs=logprobs,
        )
        self._live[request.id] = flight
        self.fleet.send(flight)

    def _taken(self, flight: Flight, event: Event) -> None:
        name = flight.request.id
        if event.refused:
            self.fleet.forget(self._live.pop(name), ended=True)
            raise EngineError(f"the vLLM server refused request '{name}': {event.refused[:400]}")
        delta = flight.take(event)
        if delta is not None:
            self._generated += len(delta.tokens)
            self._deltas.append(delta)
            self._drafting.emitted(name, tokens=delta.tokens, event=event)
        short, done = flight.is_short(event), delta is not None and delta.finish is not None
        if short or done:
            # A request that a lowered cap has ended here goes on at the server until it is told.
            self.fleet.forget(flight, ended=event.finish is not None)
        if done:
            del self._live[name]
            self._drafting.end(name)
        if short:
            self.fleet.send(flight)

    def _warm_up(self) -> None:
        """Makes each server compile its kernels on short requests, then resets all counters."""
        sampling = Sampling(max_tokens=min(8, self.max_length - 1))
        # Equal prompts would all be routed to the server that had the first of them.
        for i in range(2 * len(self.fleet.servers)):
            tokens = (i % self.folder.vocab,)
            self._send(Request(id=f"warm-{i}", tokens=tokens, sampling=sampling, seed=i))
        while self._live:
            self.step()
        self.fleet.count_anew()
        self._busy_s, self._generated = 0.0, 0
        self._drafting.open()


def _scored(answer: Any, *, tokens: Sequence[int], top: int) -> Scored:
    """Reads an answer's `prompt_logprobs`, of each place the token there and the likeliest ones."""
    places: list[dict[str, Any]] = answer["prompt_logprobs"][1:]
    pairs = zip(places, map(str, tokens[1:]), strict=True)
    rows = [[own, *sorted(said, key=lambda t: said[t]["rank"])[:top]] for said, own in pairs]
    logprobs = [[said[t]["logprob"] for t in row] for said, row in zip(places, rows, strict=True)]
    tokens_TC, logprobs_TC = (np.array(a, float).reshape(-1, top + 1) for a in (rows, logprobs))
    return Scored.parted(tokens_TC, logprobs_TC=logprobs_TC)
