"""The battery of all tests that are made of one sample."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gfcr.audit import checks, scan, shifts
from gfcr.audit.evidence import BOUND, Evidence
from gfcr.audit.features import PARTITIONS
from gfcr.audit.sampler import BONUS, PLAIN, VERIFIED
from gfcr.audit.shifts import DRAFT, POSITION

EARLY: Final = 4
"""First band of positions with a test of its own, which begins at position 8."""
SHARES: Final[Mapping[str, float]] = {
    "law": 0.5,
    "where": 0.15,
    "length": 0.1,
    "rule": 0.1,
    "repeats": 0.05,
    "dependence": 0.05,
    "scan": 0.05,
}
"""How the level is split between families; within a family each test gets the same (Bonferroni)."""

Families = dict[str, tuple[checks.Check, ...]]


@final
@dataclass(frozen=True, kw_only=True)
class Tail:
    """The tokens of all bands from one on."""

    kind: int
    first: int
    mask: checks.Mask

    @property
    def name(self) -> str:
        """Description of the tail, as it stands in the names of tests."""
        start = shifts.start(self.first)
        return f"from token {start} on" if self.kind == POSITION else f"drafts of {start} or more"


def before_the_end(evidence: Evidence, *, deterministic: bool) -> Families:
    """Makes the tests on which power rests, each if the sample has enough tokens for it.

    Args:
        evidence: the sample.
        deterministic: whether draft tokens are a function of the past.
    """
    return _made(law=_law(evidence), length=_length(evidence, deterministic=deterministic))


def rest(evidence: Evidence, *, deterministic: bool) -> Families:
    """Makes all other tests, of which each is made once."""
    return _made(
        where=_where(evidence),
        rule=_rule(evidence),
        repeats=checks.repeated(evidence.context_N, evidence.features.partitions["rank"]),
        dependence=_dependence(evidence),
        scan=scan.run(evidence, deterministic=deterministic),
    )


def level_of(families: Families, family: str, *, level: float) -> float:
    """Returns the level of each test of a family when the whole battery is made at `level`."""
    return level * SHARES[family] / max(1, len(families[family]))


def tails(e: Evidence, *, kind: int) -> Iterator[Tail]:
    """Yields the tokens from each octave of positions on, or from each octave of draft lengths."""
    bands = shifts.band(e.position_N if kind == POSITION else e.length_N)
    mask = np.ones(len(e), np.bool_) if kind == POSITION else e.scope_N
    for first in range(EARLY if kind == POSITION else 1, int(bands[mask].max(initial=0)) + 1):
        yield Tail(kind=kind, first=first, mask=mask & (bands >= first))


def _made(**families: Iterator[checks.Check | None]) -> Families:
    return {name: tuple(filter(None, found)) for name, found in families.items()}


def _law(e: Evidence) -> Iterator[checks.Check | None]:
    f, mask = e.features, e.scope_N
    yield checks.surprise("surprise", f, mask=mask)
    rank = f.partitions["rank"]
    yield checks.frequency("top", rank.hit_N[mask] == 0, rank.mass_NK[mask, 0])
    for name in PARTITIONS:
        yield checks.cells(name, f.partitions[name], mask=mask)
    yield checks.uniform("uniform", f.spread_N[mask])
    yield checks.uniform("uniform ranked", f.ranked_N[mask])
    yield checks.rare("rare", f)
    variance = float(e.lean_var_N[mask].sum())
    if variance >= checks.ENOUGH * BOUND**2:  # fewer tokens could carry the sum
        yield checks.normal("towards the drafter", float(e.lean_N[mask].sum()), variance=variance)


def _length(e: Evidence, *, deterministic: bool) -> Iterator[checks.Check | None]:
    """Makes tests by position and by draft length.

    Lengths of drafts drawn at random may depend on what was drawn: for these, only what is known
    given the draft is tested.
    """
    for kind in (POSITION, DRAFT):
        for tail in tails(e, kind=kind):
            if kind == POSITION or deterministic:
                yield checks.surprise(f"surprise, {tail.name}", e.features, mask=tail.mask)
                for name in ("rank", "token"):
                    part = e.features.partitions[name]
                    yield checks.cells(f"{name}, {tail.name}", part, mask=tail.mask)
            yield _drafts(f"drafts, {tail.name}", e, mask=tail.mask)


def _where(e: Evidence) -> Iterator[checks.Check | None]:
    for name, mask in _strata(e):
        if mask.any() and not mask.all():
            yield checks.surprise(f"surprise, {name}", e.features, mask=mask)
            yield checks.cells(f"rank, {name}", e.features.partitions["rank"], mask=mask)
            yield _drafts(f"drafts, {name}", e, mask=mask)


def _strata(e: Evidence) -> Iterator[tuple[str, checks.Mask]]:
    """Yields strata in which a defect may hide; each is decided before its tokens are sampled."""
    yield "without draft", e.state_N == PLAIN
    yield "verified", e.state_N == VERIFIED
    yield "after all drafts", e.state_N == BONUS
    for i in range(1, 5):
        yield f"place {i} of a step", e.within_N == i
    yield "place 5 to 16 of a step", (e.within_N >= 5) & (e.within_N < 17)
    yield "later places of a step", e.within_N >= 17
    for length in (1, 2, 3):
        yield f"after a step of {length}", (e.within_N == 0) & (e.previous_N == length)
    yield "first token", e.position_N == 0
    yield "second token", e.position_N == 1
    yield "tokens 3 to 8", (e.position_N >= 2) & (e.position_N < 8)


def _rule(e: Evidence) -> Iterator[checks.Check | None]:
    """Tests the rule: how often drafts are kept, and what follows those that are not."""
    yield _drafts("drafts", e, mask=np.ones(len(e), np.bool_))
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        within = (e.draft_mass_N > low) & (e.draft_mass_N <= high)
        yield _drafts(f"drafts kept with {low:g} to {high:g}", e, mask=within)
    f, every = e.recovered, np.ones(len(e.recovered), np.bool_)
    yield checks.surprise("surprise, after a rejection", f, mask=every)
    for name in PARTITIONS:
        yield checks.cells(f"{name}, after a rejection", f.partitions[name], mask=every)
    yield checks.uniform("uniform, after a rejection", f.spread_N)
    for first in range(4, int(shifts.band(e.recovered_length_R).max(initial=0)) + 1):
        late = shifts.band(e.recovered_length_R) >= first
        where = f"after a rejection in drafts of {shifts.start(first)} or more"
        yield checks.surprise(f"surprise, {where}", f, mask=late)


def _dependence(e: Evidence) -> Iterator[checks.Check | None]:
    u, f = e.given.spread_N, e.position_N
    next_ = (e.request_N[1:] == e.request_N[:-1]) & (f[1:] == f[:-1] + 1)
    yield checks.product("token to token", u[:-1][next_], u[1:][next_])
    # Keys sort by position, then request: neighbours are the same position of two requests.
    order = np.lexsort((e.request_N, f))
    same = f[order][1:] == f[order][:-1]
    yield checks.product("request to request", u[order][:-1][same], u[order][1:][same])


def _drafts(name: str, e: Evidence, *, mask: checks.Mask) -> checks.Check | None:
    use = mask & (e.state_N == VERIFIED) & ~np.isnan(e.draft_mass_N)
    return checks.frequency(name, e.draft_hit_N[use], e.draft_mass_N[use])
