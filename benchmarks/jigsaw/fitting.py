"""Slowdowns of sub-stages beside each other, fitted to what was lent."""

import importlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from gfcr.cluster.jigsaw.substages import Share, Slowdown
from gfcr.launch.lending import Lent, even
from gfcr.process.lease import Kind

_SLOWEST: Final = 20.0
Beside: TypeAlias = tuple[Kind, Share]
Which: TypeAlias = tuple[str, int]
"""A trial, and the number of a sub-stage among those of its kind."""


def fitted(lent: Iterable[Lent]) -> Slowdown:
    """Fits the speed of each kind of sub-stage beside each other kind.

    Args:
        lent: of trials that were run several times with the same seed, one run after the other.

    A sub-stage of a trial does the same work w in each run. Where it ran dt_s seconds in each of
    its stretches s, sum_s r_s dt_s = w, with r = 1 alone: least squares over all of a kind, and
    over one more beside each other kind that `even` would have told. Unseen pairs keep that factor.
    """
    by_kind: dict[Kind, list[tuple[Which, Lent]]] = defaultdict(list)
    for which, each in zip(_numbered(lent := [*lent]), lent, strict=True):
        by_kind[each.kind].append((which, each))
    found = dict(even().times)
    for kind, stages in by_kind.items():
        for (other, share), speed in _speeds(stages, kind=kind).items():
            found[kind, other, share] = 1 / speed
    return Slowdown(times=found)


def _numbered(lent: Iterable[Lent]) -> Iterator[Which]:
    """Yields the trial and the number among its kind of each sub-stage, the same in every run."""
    seen = Counter[tuple[str, Kind]]()
    for each in lent:
        if each.kind == "start":  # a run of the trial begins
            seen = Counter({key: n for key, n in seen.items() if key[0] != each.trial})
        yield each.trial, seen[each.trial, each.kind]
        seen[each.trial, each.kind] += 1


def _speeds(stages: Sequence[tuple[Which, Lent]], *, kind: Kind) -> Mapping[Beside, float]:
    """Fits the work per second that a kind does beside each other kind, 1 being its speed alone."""
    columns: list[Beside] = sorted(
        {(s.other, s.share) for _, lent in stages for s in lent.stretches if s.other is not None},
        key=str,
    )
    if not columns:
        return {}
    works = [*dict.fromkeys(which for which, _ in stages)]
    work_NW = np.array([[float(which == work) for work in works] for which, _ in stages])
    beside_NK = np.zeros((len(stages), len(columns)))
    alone_N = np.zeros(len(stages))
    for row, (_, lent) in enumerate(stages):
        for s in lent.stretches:
            if s.other is None:
                alone_N[row] += s.end_s - s.begin_s
            else:
                beside_NK[row, columns.index((s.other, s.share))] += s.end_s - s.begin_s
    optimize: Any = importlib.import_module("scipy.optimize")
    # Few meetings tell little: what is known ahead counts as one more sub-stage.
    median: Any = np.median  # partially typed
    told, long_s = even().times, float(median(alone_N + beside_NK.sum(axis=1)))
    known_K = np.array([long_s / told[kind, *column] for column in columns])
    table: Any = np.block(  # partially typed
        [
            [work_NW, -beside_NK],
            [np.zeros((len(columns), len(works))), long_s * np.eye(len(columns))],
        ]
    )
    low = np.array([*[0.0] * len(works), *[1 / _SLOWEST] * len(columns)])
    high = np.array([*[np.inf] * len(works), *[1.0] * len(columns)])
    solved = optimize.lsq_linear(table, np.concatenate([alone_N, known_K]), bounds=(low, high))
    return dict(zip(columns, map(float, solved.x[len(works) :]), strict=True))
