"""What a step of a serving engine costs here: seconds a forward pass, and a token in it.

Rollouts beside serving (`gfcr.cluster.slack.Admission`) are let in by this cost.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, cast, final

from benchmarks.rounds import answered
from gfcr import models, registry
from gfcr.engine.base import Engine, Request
from gfcr.engine.server_loop import ServerEngine
from gfcr.launch.slowdowns import machine
from gfcr.seeds import rng
from gfcr.shown.table import Column, Table
from gfcr.speculation.budget import fit_pass_cost
from gfcr.speculation.cost import PassCost
from gfcr.types import Sampling
from gfcr.values.ranges import Checked, Count

SIZES: Final = (1, 2, 4, 8, 16)
"""Requests of a batch."""
_SHAPES: Final = {"prefill": (96, 1), "decode": (16, 32)}
"""Kinds of batches: tokens of each prompt, and those sampled of it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Checked):
    """What is measured."""

    model: str = "demo"
    """Model that is served."""
    repeats: Count = 3
    """Times that each batch is sent, after once that warms up."""
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch of requests took."""

    kind: str
    requests: int
    passes: int
    tokens: int
    """Tokens that these passes computed, of prompts and sampled ones."""
    seconds: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The cost that fits all batches best, and the batches."""

    model: str
    cost: PassCost
    batches: Sequence[Batch]

    def foretold_s(self, batch: Batch) -> float:
        """Returns the seconds that the cost foretells of a batch."""
        return self.cost.seconds(passes=batch.passes, tokens=batch.tokens)

    def error(self, kind: str) -> float:
        """Returns the mean relative error over the batches of a kind."""
        own = [b for b in self.batches if b.kind == kind]
        return sum(abs(self.foretold_s(b) / b.seconds - 1) for b in own) / len(own)

    def data(self) -> dict[str, Any]:
        """Returns what `read_cost` reads, and where it is from."""
        return {
            "model": self.model,
            "machine": machine(),
            "base_s": self.cost.base_s,
            "token_s": self.cost.token_s,
            "error": {kind: self.error(kind) for kind in _SHAPES},
        }

    def text(self) -> str:
        """Returns the batches as a table, and the cost."""
        columns: tuple[Column[Batch], ...] = (
            Column("batch", lambda b: b.kind, words=True),
            Column("requests", lambda b: b.requests, "d"),
            Column("passes", lambda b: b.passes, "d"),
            Column("tokens", lambda b: b.tokens, "d"),
            Column("measured, ms", lambda b: 1e3 * b.seconds, ".1f"),
            Column("by the cost, ms", lambda b: 1e3 * self.foretold_s(b), ".1f"),
        )
        told = (
            f"A pass takes {1e3 * self.cost.base_s:.2f} ms and {1e3 * self.cost.token_s:.3f} ms "
            f"for each token in it; mean error {self.error('decode'):.0%} of decoding, "
            f"{self.error('prefill'):.0%} of prompts."
        )
        return f"{Table(rows=self.batches, columns=columns).markdown()}\n{told}"


def measure(plan: Plan, *, say: Callable[[str], object]) -> Measured:
    """Starts a server, or takes those of `engine.url`, and sends batches of several sizes.

    Raises:
        ConfigError: there is no such model or setting.
        EngineError: the server does not start or answer.
    """
    spec = {"name": "vllm_server", **plan.engine}
    config = registry.build("engine", spec, where="engine")
    model = str(models.resolve(plan.model))
    say(f"starting {spec['name']} on {plan.model}")
    with closing(config.start(model=model, seed=0)) as engine:
        vocab = cast("ServerEngine", engine).folder.vocab
        batches = run_batches(engine, vocab=vocab, repeats=plan.repeats)
    return Measured(model=plan.model, cost=fitted(batches), batches=batches)


def run_batches(engine: Engine, *, vocab: int, repeats: int) -> list[Batch]:
    """Sends batches of prompts, and of requests that are decoded, to an engine that is idle."""
    made = [
        _run(engine, kind=kind, size=size, turn=turn, vocab=vocab)
        for turn, kind, size in product(range(repeats + 1), _SHAPES, SIZES)
    ]
    return made[len(_SHAPES) * len(SIZES) :]  # the first of each warmed up


def _run(engine: Engine, *, kind: str, size: int, turn: int, vocab: int) -> Batch:
    before, began = engine.stats(), time.perf_counter()
    answered(engine, _requests(f"{kind}-{turn}", shape=_SHAPES[kind], size=size, vocab=vocab))
    seconds, spent = time.perf_counter() - began, engine.stats() - before
    return Batch(
        kind=kind,
        requests=size,
        passes=spent.forward_passes,
        tokens=spent.generated_tokens + spent.prompt_tokens,
        seconds=seconds,
    )


def fitted(batches: Sequence[Batch]) -> PassCost:
    """Returns the cost of a pass that fits the batches best."""
    return fit_pass_cost(
        passes_U=[b.passes for b in batches],
        tokens_U=[b.tokens for b in batches],
        seconds_U=[b.seconds for b in batches],
    )


def write(found: Measured, *, path: Path) -> None:
    """Writes the cost, for `read_cost`."""
    path.write_text(json.dumps(found.data(), indent=1) + "\n", "utf-8")


def _requests(name: str, *, shape: tuple[int, int], size: int, vocab: int) -> Iterator[Request]:
    prompt, new = shape
    law = Sampling(max_tokens=new)
    for i in range(size):
        draw = rng(0, "step cost", name, size, i).integers(0, vocab, prompt)
        tokens = tuple(int(t) for t in draw)
        yield Request(id=f"{name}-{size}-{i}", tokens=tokens, sampling=law, seed=i, endless=True)
