"""Sub-stages of several RL pipelines, and what they cost each other (JigsawRL, arXiv 2604.23838).

A pipeline's stages are cut where their need of the machine changes: prefill, bands of decoding by
tokens so far, tools, training. Of two that run together each is slowed down, by a table that was
measured ahead; alone each has the whole machine. Of the paper's text only summaries were at hand:
what is said of merging and of shares is our reading.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias, final

from gfcr.errors import ConfigError
from gfcr.values.ranges import Checked, NonNegative, Positive, Word

Share: TypeAlias = float | None
"""Of the machine, that the first of two has; None: nothing is leased, both take what they get."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Checked):
    """What a tail becomes when its workers hand their last rollouts to few."""

    kind: Word
    """Under which the table knows it."""
    work_s: Positive
    """Seconds of the whole sub-stage, alone, on the few."""
    recompute_s: NonNegative = 0.0
    """Seconds of computing the prefixes again."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SubStage(Checked):
    """A piece of a pipeline that needs the machine in one way."""

    name: Word
    pipeline: Word
    kind: Word
    """Under which the table knows it: `prefill`, `decode-0`, `train`..."""
    work_s: Positive
    """Seconds, alone."""
    needs: tuple[str, ...] = ()
    """Sub-stages that end before it begins."""
    merged: Merged | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Sub-stages in an order in which they can run."""

    stages: Mapping[str, SubStage]
    paths_s: Mapping[str, float]
    """Seconds of the longest path from each sub-stage to an end, itself included, alone."""

    @staticmethod
    def of(stages: Iterable[SubStage]) -> "Graph":
        """Checks and orders them.

        Raises:
            ConfigError: a name stands twice, a need is not there, or needs go in a circle.
        """
        named: dict[str, SubStage] = {}
        for stage in stages:
            if stage.name in named:
                raise ConfigError(f"two sub-stages are called '{stage.name}': name each.")
            named[stage.name] = stage
        odd = [(s.name, n) for s in named.values() for n in s.needs if n not in named]
        if odd:
            raise ConfigError(f"sub-stage '{odd[0][0]}' needs '{odd[0][1]}', which is not there.")
        try:
            order = [*TopologicalSorter({n: s.needs for n, s in named.items()}).static_order()]
        except CycleError as error:
            raise ConfigError(f"sub-stages need each other: {error.args[1]}.") from None
        ordered = {name: named[name] for name in order}
        return Graph(stages=ordered, paths_s=_paths_s(ordered))

    @property
    def pipelines(self) -> Sequence[str]:
        """In the order in which they are named."""
        return [*dict.fromkeys(stage.pipeline for stage in self.stages.values())]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """How many times as long a sub-stage takes beside another one."""

    times: Mapping[tuple[str, str, Share], float]
    """(kind, the other's kind, own share): what its time is multiplied by."""

    def __post_init__(self) -> None:
        for (kind, other, share), times in self.times.items():
            if not times >= 1 or not (share is None or 0 < share < 1):
                raise ConfigError(
                    f"slowdown of {kind} beside {other} at share {share}: {times}. Give a factor "
                    ">= 1 at a share between 0 and 1, or None."
                )

    def shares(self, kind: str, *, other: str) -> Sequence[Share]:
        """The shares at which the two were measured together, of the first."""
        found = [s for a, b, s in self.times if (a, b) == (kind, other)]
        found.sort(key=lambda share: (share is None, share))
        return [s for s in found if (other, kind, _rest(s)) in self.times]

    def pair(self, kind: str, *, other: str, share: Share) -> tuple[float, float]:
        """Factors of both.

        Raises:
            ConfigError: the two were not measured together so.
        """
        keys = (kind, other, share), (other, kind, _rest(share))
        missing = [key for key in keys if key not in self.times]
        if missing:
            raise ConfigError(f"no slowdown of {missing[0]} was measured: measure the pair.")
        return self.times[keys[0]], self.times[keys[1]]

    @property
    def best_rate(self) -> float:
        """Seconds of work, alone, that two can do in a second together, at most."""
        pairs = [
            1 / times + 1 / self.times[other, kind, _rest(share)]
            for (kind, other, share), times in self.times.items()
            if (other, kind, _rest(share)) in self.times
        ]
        return max([1.0, *pairs])


def _rest(share: Share) -> Share:
    return None if share is None else round(1 - share, 9)


def _paths_s(stages: Mapping[str, SubStage]) -> Mapping[str, float]:
    after: dict[str, float] = dict.fromkeys(stages, 0.0)
    for name, stage in reversed([*stages.items()]):
        after[name] += stage.work_s
        for need in stage.needs:
            after[need] = max(after[need], after[name])
    return after
