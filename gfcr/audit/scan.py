"""Tests for defects in few places: one request, one row of the batch, one position, copies.

The places are not known beforehand and hold few tokens each, so no sum is normal there. Each test
is a likelihood ratio instead: of an alternative that learns from the tokens before, to the law
that they should follow. Its mean is 1 under a lossless engine, exactly, however little entropy
there is, and 1 / ratio bounds the p-value (Ville's inequality; Vovk & Wang, arXiv 1912.06116).
"""

import importlib
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.checks import Check
from gfcr.audit.evidence import Evidence
from gfcr.audit.features import Array, Partition
from gfcr.audit.shifts import band
from gfcr.types import Bools, Ints

Index: TypeAlias = NDArray[np.integer[Any]]

PRIOR: Final = 1.0
"""Hits that each cell is assumed to have had, as expected, before the first token."""
ROWS: Final = 60_000
"""About how many tokens are processed together."""
PREFIXES: Final = tuple(2**k for k in range(1, 13))
"""Numbers of tokens after which a copy may diverge."""
PAIRS: Final = 2_000
"""Number of requests, from the first, that are compared with each other token by token."""
UPTO: Final = 64
"""Number of their tokens that are compared."""
BINS: Final = 8
"""Number of bins of the uniform numbers that tokens came from."""
CERTAIN: Final = 1e6
"""Nats that stand for infinity."""
SAME: Final = 0.5
"""Share of common tokens that the alternatives assume."""


def run(e: Evidence, *, deterministic: bool) -> Iterator[Check]:
    """Makes all tests. Without `deterministic` none is by draft length, which may tell drafts."""
    time = np.argsort(e.step_N, kind="stable")
    for place, group_N in _places(e, deterministic=deterministic):
        for name, partition in e.given.partitions.items():
            yield check(f"{name} by {place}", drift(partition, group_N=group_N, time=time))
    yield check("copies of siblings", copies(e, siblings=True))
    yield check("copies", copies(e, siblings=False))
    some = (e.request_N < PAIRS) & (e.position_N < UPTO)
    yield check("same tokens", shared_tokens(e, some=some))
    for name, mirrored in (("same randomness", False), ("mirrored randomness", True)):
        yield check(name, shared_randomness(e, some=some, mirrored=mirrored))


def check(name: str, ratios: Array) -> Check:
    """Makes one test of many places' log-likelihood ratios, each of mean 1 given those before.

    The alternatives are that one place is wrong, that all are, and shares in between.
    """
    if not len(ratios):
        return Check(name, 0.0, -1, 1.0)
    # A token without probability decides elsewhere; here it must not hide the others.
    ratios = np.nan_to_num(ratios, nan=0.0, posinf=CERTAIN, neginf=-CERTAIN)
    shares = {1.0, *(s for s in (0.3, 0.1, 0.03, 0.01) if s * len(ratios) > 1), 1 / len(ratios)}
    with np.errstate(divide="ignore"):  # with a share of 1 no place is right
        mixed = [np.logaddexp(np.log1p(-s), np.log(s) + ratios) for s in sorted(shares)]
    totals = [ratio.sum() for ratio in mixed]
    total = float(np.logaddexp.reduce(totals) - np.log(len(totals)))
    return Check(name, total, -1, float(np.exp(-max(total, 0.0))))


def drift(partition: Partition, *, group_N: Ints, time: Index) -> Array:
    """Returns log-ratios by group, if cells hit too often in a group go on to be."""
    order = time[np.argsort(group_N[time], kind="stable")]
    group = group_N[order]
    firsts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    # Whole groups together, about `ROWS` tokens at a time.
    cuts = [int(firsts[0])]
    for first in [*firsts[1:].tolist(), len(group)]:
        if first - cuts[-1] >= ROWS or first == len(group):
            cuts.append(first)
    return np.concatenate(
        [_drift(partition, rows=order[a:b], group=group[a:b]) for a, b in pairwise(cuts)]
    )


def copies(e: Evidence, *, siblings: bool) -> Array:
    """Returns log-ratios by request, if it repeats an earlier one (of its prompt) for a while."""
    firsts = np.flatnonzero(np.r_[True, e.request_N[1:] != e.request_N[:-1]])
    seen, total = Counter[int](), Counter[int]()
    found: list[float] = []
    for a, b in zip(firsts, [*firsts[1:], len(e)], strict=True):
        pool = int(e.prompt_N[a]) if siblings else 0
        places = zip(e.position_N[a:b].tolist(), e.token_N[a:b].tolist(), strict=True)
        keys = [*accumulate(places, lambda key, place: hash((key, *place)), initial=hash(pool))][1:]
        surprise = -np.cumsum(e.given.logp_N[a:b])
        ends = [min(k, len(keys)) for k in PREFIXES]
        parts = [
            np.log(seen[keys[k - 1]] / total[pool]) + surprise[k - 1]
            for k in ends
            if keys[k - 1] in seen
        ]
        if total[pool]:
            ratio = np.logaddexp.reduce(parts) - np.log(len(PREFIXES)) if parts else -np.inf
            found.append(float(ratio))
        total[pool] += 1
        seen.update(keys)
    return np.array(found)


def shared_tokens(e: Evidence, *, some: Bools) -> Array:
    """Returns log-ratios by request, if it shares tokens with an earlier one at equal places."""
    rows, place = e.request_N[some], e.position_N[some]
    logp = e.given.logp_N[some]
    more = np.logaddexp(np.log1p(-SAME), np.log(SAME) - logp) - np.log1p(-SAME)
    token = _ids(place, e.token_N[some])
    common = _common(rows, token, more)
    return _earlier(common + np.log1p(-SAME) * _common(rows, place, np.ones(len(rows))))


def shared_randomness(e: Evidence, *, some: Bools, mirrored: bool) -> Array:
    """Returns log-ratios if requests share uniform numbers, equal or adding up to 1."""
    rows, place = e.request_N[some], e.position_N[some]
    bins = np.minimum((e.given.spread_N[some] * BINS).astype(np.int32), BINS - 1)
    other = BINS - 1 - bins if mirrored else bins
    ones = np.ones(len(rows))
    same = _common(rows, place * BINS + bins, ones, other=place * BINS + other)
    overlap = _common(rows, place, ones)
    hit, missed = np.log(1 + SAME * (BINS - 1)), np.log1p(-SAME)
    return _earlier(same * hit + (overlap - same) * missed)


def _common(rows: Ints, what: Ints, value: Array, *, other: Ints | None = None) -> Array:
    """Sums the values of what two requests have in common, (requests, requests)."""
    sparse = importlib.import_module("scipy.sparse")
    other = what if other is None else other
    shape = (int(rows.max(initial=-1)) + 1, int(max(what.max(), other.max())) + 1)
    one = sparse.csr_matrix((value, (rows, what)), shape)
    two = sparse.csr_matrix((np.ones(len(rows)), (rows, other)), shape)
    return np.asarray((one @ two.T).toarray(), np.float64)


def _places(e: Evidence, *, deterministic: bool) -> Iterator[tuple[str, Ints]]:
    """Yields places where a defect may hide; each token's place is known before it is sampled."""
    yield "request", e.request_N
    yield "prompt", _ids(e.prompt_N)
    yield "sibling", _ids(e.prompt_N, e.request_N // 32, e.position_N)
    yield "position", e.position_N
    yield "place in a step", _ids(e.state_N, e.within_N)
    yield "row of the batch", e.row_N
    yield "number in flight", band(e.running_N)
    yield "step of the engine", e.step_N
    yield "token before", e.previous_token_N
    if deterministic:
        yield "draft length", _ids(e.state_N, e.length_N)


def _ids(*columns: NDArray[np.integer[Any]]) -> Ints:
    """Numbers the distinct rows of the columns."""
    stacked = np.stack([np.asarray(c, np.int64) for c in columns])
    return np.unique(stacked, axis=1, return_inverse=True)[1].ravel().astype(np.int32)


def _drift(partition: Partition, *, rows: Index, group: Ints) -> Array:
    hit, mass = partition.hit_N[rows], partition.mass_NK[rows]
    first = np.r_[True, group[1:] != group[:-1]]
    starts = np.flatnonzero(first)
    lengths = np.diff(np.r_[starts, len(group)])
    ones = np.zeros_like(mass)
    ones[np.arange(len(hit)), hit] = 1
    # The alternative: each cell comes as often, relative to its probability, as it has so far.
    tilt = (PRIOR + _before(ones, starts, lengths)) / (PRIOR + _before(mass, starts, lengths))
    whole = (mass * tilt).sum(-1) / mass.sum(-1)
    ratio = np.log(tilt[np.arange(len(hit)), hit]) - np.log(whole)
    return np.add.reduceat(ratio, starts)


def _before(values: Array, starts: Index, lengths: Index) -> Array:
    """Sums the rows before each row, within its group."""
    up = np.cumsum(values, 0) - values
    return np.maximum(up - np.repeat(up[starts], lengths, 0), 0.0)


def _earlier(ratio: Array) -> Array:
    """Returns by row the log of the mean over the columns before it."""
    num = len(ratio)
    masked = np.where(np.tri(num, k=-1, dtype=np.bool_), ratio, -np.inf)[1:]
    return np.logaddexp.reduce(masked, axis=1) - np.log(np.arange(1, num))
