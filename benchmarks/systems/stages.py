"""The sub-stages of a recorded run's step, as JigsawRL cuts it: bands of decoding, and training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from benchmarks.simulation.recorded import Calibration
from benchmarks.systems.bands import Band, bands
from gfcr.cluster.jigsaw.substages import Graph, SubStage
from gfcr.shown import picture

QUANTILES: Final = (0.5, 0.9)
"""Of all recorded lengths: where bands of decoding meet."""
KINDS: Final = ("decode-0", "decode-1", "tail")
_COLOURS: Final = {"decode": "tab:blue", "tail": "tab:green", "train": "tab:red", "sync": "grey"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A sub-stage of a run's mean step."""

    stage: SubStage
    running: float | None
    """Mean number of rollouts in a forward pass; None where nothing is decoded."""
    tokens: str = ""
    """Which tokens of each rollout are decoded in it."""


def of_run(found: Calibration) -> list[Node]:
    """Returns the sub-stages of the mean step of a recorded run, in their order.

    The seconds of generation are measured as one, prompts and tools included. They are divided by
    the cost of a pass that was fitted to the run, and by how many rollouts of each length there
    were, as if all of a batch were decoded together.
    """
    nodes = decoding(found)
    for kind, seconds in (("train", found.train_s), ("sync", found.prepare_s)):
        if seconds > 0:
            nodes.append(Node(stage=_stage(kind, seconds, after=nodes), running=None))
    Graph.of(node.stage for node in nodes)
    return nodes


def draw(nodes: Sequence[Node], *, path: Path) -> Path:
    """Draws the step: a bar for each sub-stage, one after the other.

    Raises:
        ConfigError: as `picture.save`.
    """
    figure = picture.new(8, 1 + 0.4 * len(nodes))
    axes: Any = figure.subplots()
    began_s = 0.0
    for place, node in enumerate(nodes):
        colour = _COLOURS[node.stage.kind.partition("-")[0]]
        axes.barh(place, node.stage.work_s, left=began_s, color=colour)
        began_s += node.stage.work_s
    axes.set_yticks(range(len(nodes)), [node.stage.kind for node in nodes])
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    return picture.save(figure, path=path)


def decoding(found: Calibration) -> list[Node]:
    """Returns bands of decoding, means over updates, whose seconds add up to what was measured."""
    edges = [int(np.ceil(e)) for e in np.quantile(np.concatenate(found.lengths), QUANTILES)]
    by_update = [bands(own, edges=edges, cost=found.cost) for own in found.lengths]
    kinds = dict(zip([0, *edges], KINDS, strict=True))  # one where both quantiles are the same
    nodes: list[Node] = []
    fitted_s = sum(band.work_s for own in by_update for band in own) / len(by_update)
    for start, kind in kinds.items():
        own = [band for made in by_update for band in made if band.begin == start]
        if own:
            seconds = sum(b.work_s for b in own) / len(by_update) * found.generate_s / fitted_s
            nodes.append(
                Node(
                    stage=_stage(kind, seconds, after=nodes),
                    running=float(np.mean([band.running for band in own])),
                    tokens=_range(own),
                )
            )
    return nodes


def _stage(kind: str, seconds: float, *, after: Sequence[Node]) -> SubStage:
    needs = (after[-1].stage.name,) if after else ()
    return SubStage(name=kind, pipeline="step", kind=kind, work_s=seconds, needs=needs)


def _range(own: Sequence[Band]) -> str:
    return f"{own[0].begin + 1} to {max(band.end for band in own)}"
