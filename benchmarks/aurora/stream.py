"""A stream of requests that does not stop: so many at a time, and what became of each block."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import final

from benchmarks.rounds import acceptance_length
from gfcr.engine.base import Engine, EngineStats, Request
from gfcr.seeds import seed_of
from gfcr.types import FinishReason, Prompt, Sampling


@final
@dataclass(frozen=True, kw_only=True)
class Block:
    """Requests that ended one after the other."""

    requests: int
    spent: EngineStats
    """What the engine did from the first of them to the last, for all that was in flight."""
    seconds: float

    @property
    def acceptance_length(self) -> float:
        """Tokens a verification."""
        return acceptance_length([self.spent])


@final
@dataclass(kw_only=True)
class Stream:
    """Requests on an engine, a new one for each that ends."""

    engine: Engine
    sampling: Sampling
    running: int
    """How many at a time."""
    block: int
    """Requests of a block."""
    failed: int = 0
    """Requests that ended by an error, or were given up."""
    ended: int = 0
    _sent: int = 0
    _live: set[str] = field(default_factory=set[str])

    def blocks(self, prompts: Iterable[Prompt], *, seed: int) -> Iterator[Block]:
        """Sends prompts for as long as blocks are asked for; what is in flight then stays so.

        Args:
            prompts: one a request.
            seed: of what is sampled, with a prompt's number.
        """
        rest = enumerate(prompts)
        while True:
            before, began, ended = self.engine.stats(), perf_counter(), self.ended
            while self.ended - ended < self.block:
                for number, prompt in islice(rest, self.running - len(self._live)):
                    self._send(prompt, seed=seed_of(seed, "stream", number))
                if not self._live:
                    return
                self._step()
            yield Block(
                requests=self.ended - ended,
                spent=self.engine.stats() - before,
                seconds=perf_counter() - began,
            )

    def drain(self) -> None:
        """Waits for what is in flight."""
        while self._live:
            self._step()

    def _send(self, prompt: Prompt, *, seed: int) -> None:
        self._sent += 1
        name = f"stream-{self._sent}"
        self._live.add(name)
        self.engine.submit(
            Request(id=name, tokens=prompt.tokens, sampling=self.sampling, seed=seed)
        )

    def _step(self) -> None:
        for delta in self.engine.step():
            if delta.finish is not None:
                self._live.discard(delta.request_id)
                self.ended += 1
                self.failed += delta.finish not in (FinishReason.STOP, FinishReason.LENGTH)
