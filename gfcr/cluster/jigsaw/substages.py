"""Sub-stages of several RL pipelines, and how they slow each other (JigsawRL, arXiv 2604.23838).

A pipeline's stages are cut where their need of the machine changes: prefill, bands of decoding by
tokens so far, tools, training. Two that run together slow each other, by factors in a table that
was measured beforehand; alone each has the whole machine. Only summaries of the paper were at
hand: merging and shares are our reading of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TypeAlias, final

from gfcr.errors import ConfigError
from gfcr.values.ranges import Checked, NonNegative, Positive, Word

Share: TypeAlias = float | None
"""Share of the machine for the first of two; None: unmanaged, both take what they get."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Checked):
    """A tail whose workers have handed their last rollouts to a few of them."""

    kind: Word
    """Kind of sub-stage by which the slowdown table knows it."""
    work_s: Positive
    """Seconds of the whole sub-stage on these few workers, run alone."""
    recompute_s: NonNegative = 0.0
    """Seconds for computing the moved rollouts' prefixes again."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SubStage(Checked):
    """A part of a pipeline with one kind of demand on the machine."""

    name: Word
    pipeline: Word
    kind: Word
    """Kind by which the slowdown table knows it: `prefill`, `decode-0`, `train`..."""
    work_s: Positive
    """Seconds of work, if run alone."""
    needs: tuple[str, ...] = ()
    """Names of sub-stages that must end before it begins."""
    merged: Merged | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Sub-stages in an order in which they can run."""

    stages: Mapping[str, SubStage]
    paths_s: Mapping[str, float]
    """Seconds of the longest path from each sub-stage to an end, itself included, run alone."""

    @staticmethod
    def of(stages: Iterable[SubStage]) -> "Graph":
        """Sorts sub-stages, each of another name, topologically.

        Raises:
            CycleError: sub-stages need each other.
            KeyError: one needs another that is not there.
        """
        named = {stage.name: stage for stage in stages}
        order = TopologicalSorter({name: stage.needs for name, stage in named.items()})
        ordered = {name: named[name] for name in order.static_order()}
        return Graph(stages=ordered, paths_s=_paths_s(ordered))

    @property
    def pipelines(self) -> Sequence[str]:
        """Names of the pipelines, in the graph's order."""
        return [*dict.fromkeys(stage.pipeline for stage in self.stages.values())]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """Measured factors by which a sub-stage takes longer beside another one."""

    times: Mapping[tuple[str, str, Share], float]
    """Factor on the time of a sub-stage, by (its kind, the other's kind, its share)."""

    def __post_init__(self) -> None:
        for (kind, other, share), times in self.times.items():
            if not times >= 1 or not (share is None or 0 < share < 1):
                raise ConfigError(
                    f"slowdown of {kind} beside {other} at share {share}: {times}. Give a factor "
                    ">= 1 at a share between 0 and 1, or None."
                )

    def shares(self, kind: str, *, other: str) -> Sequence[Share]:
        """Returns the first one's shares at which the two kinds were measured together."""
        found = [s for a, b, s in self.times if (a, b) == (kind, other)]
        found.sort(key=lambda share: (share is None, share))
        return [s for s in found if (other, kind, _rest(s)) in self.times]

    def pair(self, kind: str, *, other: str, share: Share) -> tuple[float, float]:
        """Returns the factors of both kinds.

        Raises:
            ConfigError: the two were not measured together at this share.
        """
        keys = (kind, other, share), (other, kind, _rest(share))
        missing = [key for key in keys if key not in self.times]
        if missing:
            raise ConfigError(f"no slowdown of {missing[0]} was measured: measure the pair.")
        return self.times[keys[0]], self.times[keys[1]]


def _rest(share: Share) -> Share:
    return None if share is None else round(1 - share, 9)


def _paths_s(stages: Mapping[str, SubStage]) -> Mapping[str, float]:
    after: dict[str, float] = dict.fromkeys(stages, 0.0)
    for name, stage in reversed([*stages.items()]):
        after[name] += stage.work_s
        for need in stage.needs:
            after[need] = max(after[need], after[name])
    return after
