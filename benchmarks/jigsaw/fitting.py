"""Slowdowns of sub-stages beside each other, fitted to what was lent."""

import importlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from gfcr.cluster.jigsaw.substages import Share, Slowdown
from gfcr.launch.lending import Lent, even
from gfcr.process.lease import Kind

_SLOWEST: Final = 20.0
Beside: TypeAlias = tuple[Kind, Share]


def fitted(lent: Iterable[Lent]) -> Slowdown:
    """Fits, for each kind, its length alone and its speed beside each other kind.

    A sub-stage of a kind that ran dt_s seconds in each of its stretches s did
    sum_s r_s dt_s = w seconds of work, with r = 1 alone; least squares over all of a kind, and over
    one more beside each other kind that `even` would have told. Unseen pairs keep that factor.
    """
    by_kind: dict[Kind, list[Lent]] = defaultdict(list)
    for each in lent:
        by_kind[each.kind].append(each)
    found = dict(even().times)
    for kind, stages in by_kind.items():
        for (other, share), speed in _speeds(stages, kind=kind).items():
            found[kind, other, share] = 1 / speed
    return Slowdown(times=found)


def _speeds(stages: Sequence[Lent], *, kind: Kind) -> Mapping[Beside, float]:
    """Fits the work per second that a kind does beside each other kind, 1 being its speed alone."""
    columns: list[Beside] = sorted(
        {(s.other, s.share) for lent in stages for s in lent.stretches if s.other is not None},
        key=str,
    )
    if not columns:
        return {}
    beside_NK = np.zeros((len(stages), len(columns)))
    alone_N = np.zeros(len(stages))
    for row, lent in enumerate(stages):
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
            [np.ones((len(stages), 1)), -beside_NK],
            [np.zeros((len(columns), 1)), long_s * np.eye(len(columns))],
        ]
    )
    low = np.array([0.0, *[1 / _SLOWEST] * len(columns)])
    high = np.array([np.inf, *[1.0] * len(columns)])
    solved = optimize.lsq_linear(table, np.concatenate([alone_N, known_K]), bounds=(low, high))
    return dict(zip(columns, map(float, solved.x[1:]), strict=True))
