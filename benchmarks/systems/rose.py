"""Simulates rollouts on serving engines, as in ROSE: its arms on the same traces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Interval

from benchmarks.rose.trace import Trace
from benchmarks.simulation.lengths import Lognormal
from benchmarks.systems.coserving import ARMS, Arm, Found, Workload, calibrated, simulate
from gfcr.cluster.slack import Admission, Objectives
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost
from gfcr.values.ranges import Checked, Count, Positive


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Checked):
    """One GPU of a serving cluster, and the rollouts that use it. Made up, not measured."""

    rate: Positive = 6.0
    """The serving requests per second."""
    seconds: Positive = 120.0
    base_ms: Positive = 8.0
    """The cost of an iteration; `token_ms` is that of each token in it."""
    token_ms: Positive = 0.4
    seats: Count = 64
    """The number of rollouts decoded together."""
    blocks: Count = 400
    """The blocks of KV memory, of 32 tokens each."""
    margin: Annotated[float, Interval(ge=1, le=1000)] = 1.5
    """The latency budgets over the latencies of serving alone, at P99."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of an arm over seeds: means, and the number that kept both latency budgets."""

    arm: Arm
    ttft_p99: float
    tpot_p99: float
    kept: int
    seeds: int
    rollout_rate: float
    faster: float
    """Rollout tokens per second over those of the fixed split, mean of pairs; nan without."""
    recomputed: float
    cuts: float


def rows(scene: Scene, *, seeds: int) -> list[Row]:
    """Simulates all arms on the same `seeds` traces."""
    works = [calibrated(_workload(scene, seed=s), margin=scene.margin) for s in range(seeds)]
    found = {arm: [simulate(work, arm=arm) for work in works] for arm in ARMS}
    budgets = [work.admission.objectives for work in works]
    return [_row(found[arm], split=found["split"], budgets=budgets) for arm in ARMS]


def _workload(scene: Scene, *, seed: int) -> Workload:
    cost = PassCost(base_s=scene.base_ms / 1e3, token_s=scene.token_ms / 1e3)
    own = Objectives(ttft_s=1.0, tpot_s=1.0)
    arrivals = Trace(seconds=scene.seconds, rate=scene.rate, seed=seed).arrivals()
    if not any(arrival.output > 1 for arrival in arrivals):
        raise ConfigError(
            f"--rate {scene.rate:g} and --seconds {scene.seconds:g} give trace {seed} no request "
            "of two tokens, by whose latencies budgets are set: raise one of them."
        )
    return Workload(
        arrivals=arrivals,
        seconds=scene.seconds,
        admission=Admission(objectives=own, cost=cost, chunk=256),
        blocks=scene.blocks,
        lengths=Lognormal(median=100, tail=4.0, cap=512),
        seats=scene.seats,
        update_s=10.0,
        seed=seed,
    )


def _row(found: Sequence[Found], *, split: Sequence[Found], budgets: Sequence[Objectives]) -> Row:
    def mean(name: str) -> float:
        return float(np.mean([getattr(each, name) for each in found]))

    pairs = zip(found, budgets, strict=True)
    kept = [f.ttft_p99 <= b.ttft_s and f.tpot_p99 <= b.tpot_s for f, b in pairs]
    rates = [
        own.rollout_rate / other.rollout_rate if other.rollout_rate else float("nan")
        for own, other in zip(found, split, strict=True)
    ]
    return Row(
        arm=found[0].arm,
        ttft_p99=mean("ttft_p99"),
        tpot_p99=mean("tpot_p99"),
        kept=sum(kept),
        seeds=len(found),
        rollout_rate=mean("rollout_rate"),
        faster=float(np.mean(rates)),
        recomputed=mean("recomputed"),
        cuts=mean("cuts"),
    )
