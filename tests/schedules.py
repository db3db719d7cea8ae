"""A run without a trainer, for schedules: what a trainer asks of it, and notes of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, final

from gfcr.ledger import IN_FLIGHT
from gfcr.pipeline import Pipeline
from gfcr.types import RolloutBatch

LAST = 6


@final
@dataclass
class Work:
    """A run without a trainer: a pipeline, and notes of what is asked of it, in order."""

    pipeline: Pipeline
    spent_at: int = 10**9
    """Version from which no batch is begun."""
    paused_at: int = 10**9
    asked: list[tuple[Any, ...]] = field(default_factory=list[Any])

    def sync(self, weights: Any, *, version: int) -> None:
        given = [*weights]
        self.asked.append(("sync", version, [getattr(tensor, "value", 0) for _, tensor in given]))
        self.pipeline.sync(given, version=version)

    def goes_on(self) -> bool:
        return self.pipeline.engine.version < self.spent_at

    def paused(self) -> bool:
        return self.pipeline.engine.version >= self.paused_at

    def made(self, batch: RolloutBatch) -> None:
        self.asked.append(("made", batch.step))

    def hold(self, batch: RolloutBatch) -> None:
        self.pipeline.hold(batch)

    def next_batch(self) -> RolloutBatch | None:
        return self.pipeline.next_batch() if self.goes_on() and not self.paused() else None

    def masked(self, kept: Any, *, update: int | None = None) -> None:
        self.asked.append(("masked", update))
        self.pipeline.masked(kept, update=update)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        self.asked.append(("updated", step, dict(metrics)))
        self.pipeline.updated(metrics, update=step - 1)

    def state_dict(self) -> dict[str, Any]:
        return self.pipeline.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.pipeline.load_state_dict(state)


def trained(
    run: Any,
    *,
    first: int = 0,
    until: int = LAST,
    weights: Callable[[int], Any] = lambda version: (),
    save: Callable[[int, Any], object] = lambda step, run: None,
) -> list[RolloutBatch]:
    """What a trainer does: the policy is handed over, a batch is learned from, and told of."""
    batches: list[RolloutBatch] = []
    for version in range(first, LAST + 1):
        run.sync(weights(version), version=version)
        if version == until or (batch := run.next_batch()) is None:
            break
        assert batch.step == version
        run.masked({s.rollout.id: s.rollout.mask_T for s in batch.samples})
        run.updated(step=version + 1, metrics={"loss": 1.0})
        batches.append(batch)
        save(version + 1, run)
    return batches


def outcome(batches: Sequence[RolloutBatch]) -> list[Any]:
    """Every trained token with its log-prob and version, in order."""
    return [
        (b.step, s.rollout.id, s.rollout.tokens_T.tolist(), s.rollout.logprobs_T.tolist())
        for b in batches
        for s in b.samples
    ]


def ages(batches: Sequence[RolloutBatch]) -> list[int]:
    """How old each trained token is when it is learned from."""
    own = [(b.step, s.rollout) for b in batches for s in b.samples]
    return [int(step - v) for step, r in own for v in r.versions_T[r.mask_T]]


def closed(made: Work) -> bool:
    tokens = made.pipeline.tokens()
    return not tokens["remainder"] and IN_FLIGHT not in tokens


@final
class Slow:
    """An engine whose steps take a while: so many seconds, or fewer now and then."""

    def __init__(self, engine: Any, *, takes: Sequence[float], draw: Random) -> None:
        self._engine, self._takes, self._draw = engine, takes, draw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> Any:
        time.sleep(self._draw.choice(self._takes))
        return self._engine.step()
