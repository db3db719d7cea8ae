"""Simulates several RL pipelines on one machine, as in JigsawRL, by each scheduler.

The slowdown of two concurrent sub-stages is a table where it was measured; here it is computed from
their needs of compute and memory bandwidth. That table, and the cost of merging, are our reading:
no text that we have gives either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, final

import numpy as np
from annotated_types import Interval

from benchmarks.jigsaw.timeline import Timeline, play
from benchmarks.simulation.lengths import Lognormal
from benchmarks.systems.bands import bands
from benchmarks.systems.published import JIGSAW
from gfcr.cluster.jigsaw.machine import Machine
from gfcr.cluster.jigsaw.schedulers import Greedy, LookAhead, Scheduler, Serial, Unmanaged
from gfcr.cluster.jigsaw.substages import Graph, Merged, Slowdown, SubStage
from gfcr.seeds import rng
from gfcr.speculation.cost import PassCost
from gfcr.values.ranges import Checked, Count, Seed, SomeShare

EDGES: Final = (128, 1024)
"""Lengths in tokens at which decoding is cut into bands (JigsawRL)."""
SHARES: Final = (0.25, 0.5, 0.75)
_EVERY: Final = (None, *SHARES)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Use(Checked):
    """The shares of the machine that a sub-stage needs while it runs alone."""

    compute: SomeShare
    bandwidth: SomeShare


USES: Final[Mapping[str, Use]] = {
    "train": Use(compute=0.95, bandwidth=0.35),
    "score": Use(compute=0.95, bandwidth=0.35),
    "decode-0": Use(compute=0.6, bandwidth=0.8),
    "decode-1": Use(compute=0.3, bandwidth=0.6),
    "tail": Use(compute=0.15, bandwidth=0.4),
    "few": Use(compute=0.08, bandwidth=0.2),
}
"""Made up, not measured: the fewer rollouts are left, the less decoding needs."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Checked):
    """Equal pipelines, each of several steps."""

    pipelines: Annotated[int, Interval(ge=2, le=8)] = 2
    steps: Annotated[int, Interval(ge=1, le=8)] = 2
    requests: Count = 256
    """The number of rollouts in a step."""
    depth: Annotated[int, Interval(ge=1, le=4)] = 2
    """The number of decisions that look-ahead tries."""
    seed: Seed = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one scheduler."""

    scheduler: str
    makespan_s: float
    faster: float
    """The speed-up: serial's makespan over its own."""
    latency: float
    """Seconds of the slowest pipeline over those of a pipeline that runs alone."""
    timeline: Timeline


def rows(scene: Scene) -> list[Row]:
    """Simulates serial, unmanaged, greedy and look-ahead scheduling of the same pipelines."""
    machine = Machine(graph=graph(scene), slowdown=slowdown(USES))
    every: dict[str, Scheduler] = {
        "serial": Serial(),
        "unmanaged": Unmanaged(),
        "greedy": Greedy(),
        "look-ahead": LookAhead(depth=scene.depth),
    }
    found = {name: play(machine, scheduler=each) for name, each in every.items()}
    stages = machine.graph.stages.values()
    serial_s = found["serial"].makespan_s
    alone_s = max(
        sum(s.work_s for s in stages if s.pipeline == name) for name in machine.graph.pipelines
    )
    return [
        Row(
            scheduler=name,
            makespan_s=each.makespan_s,
            faster=serial_s / each.makespan_s,
            latency=each.makespan_s / alone_s,
            timeline=each,
        )
        for name, each in found.items()
    ]


def graph(scene: Scene) -> Graph:
    """Returns steps in sequence: decoding in bands, then log-probs, then the update."""
    told = JIGSAW["step_s"]
    stages: list[SubStage] = []
    for pipeline in range(scene.pipelines):
        last: tuple[str, ...] = ()
        for step in range(scene.steps):
            decoding = _decoding(scene, pipeline=pipeline, step=step, seconds=told["generation"])
            scores_s = told["reference"] + told["old log-probs"]
            work = {**decoding, "score": scores_s, "train": told["update"]}
            for kind, work_s in work.items():
                name = f"{pipeline}/{step}/{kind}"
                few = Merged(kind="few", work_s=1.15 * work_s, recompute_s=0.02 * work_s)
                stages.append(
                    SubStage(
                        name=name,
                        pipeline=str(pipeline),
                        kind=kind,
                        work_s=work_s,
                        needs=last,
                        merged=few if kind == "tail" else None,
                    )
                )
                last = (name,)
    return Graph.of(stages)


def _decoding(scene: Scene, *, pipeline: int, step: int, seconds: float) -> dict[str, float]:
    """Returns the seconds of each band, which sum to those the repository prints."""
    lengths = Lognormal(median=500, tail=8.0, cap=8192)
    draw = rng(scene.seed, "lengths", pipeline, step)
    lengths_N = np.asarray(lengths.draw(scene.requests, rng=draw))
    found = bands(lengths_N, edges=EDGES, cost=PassCost(base_s=0.01, token_s=2e-4))
    whole_s = sum(band.work_s for band in found)
    kinds = ("decode-0", "decode-1", "tail")
    return {kind: b.work_s / whole_s * seconds for kind, b in zip(kinds, found, strict=False)}


def slowdown(uses: Mapping[str, Use]) -> Slowdown:
    """Computes slowdowns: compute is leased by share, bandwidth is divided on demand.

    Without a lease, each gets compute in proportion to its needs, as where kernels queue up, and
    also waits for the other's kernels, which takes a tenth more.
    """
    times: dict[tuple[str, str, float | None], float] = {}
    for a, first in uses.items():
        for b, second in uses.items():
            for share in _EVERY:
                own, other = _compute(first, second, share=share)
                # Slowed down by compute, each asks for less bandwidth.
                asked = first.bandwidth / own + second.bandwidth / other
                times[a, b, share] = max(1.0, own * max(1.0, asked))
    return Slowdown(times=times)


def _compute(first: Use, second: Use, *, share: float | None) -> tuple[float, float]:
    if share is None:
        crowd = 1.1 * max(1.0, first.compute + second.compute)
        return crowd, crowd
    return max(1.0, first.compute / share), max(1.0, second.compute / (1 - share))
