"""All tests of one sample, and what they add up to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gfcr.audit import checks, repeats
from gfcr.audit.evidence import Evidence
from gfcr.audit.features import PARTITIONS
from gfcr.audit.sampler import BONUS, PLAIN, VERIFIED
from gfcr.audit.settings import Setting
from gfcr.audit.tilts import TILTS

SHARES: Final = {"law": 0.6, "where": 0.25, "repeats": 0.1, "dependence": 0.05}
"""How the level is split between families; within a family each test gets the same (Bonferroni)."""

ROOM: Final = 0.5
"""Share of the stated distance that a planted bias must reach, where there is room, to be one."""


MOST: Final = 10.0
"""Times the stated distance that a bias may take where there is room."""


@final
@dataclass(frozen=True, kw_only=True)
class Battery:
    """Outcome of all tests."""

    by_family: dict[str, tuple[checks.Check, ...]]
    impossible: int
    """Tokens sampled that the target never emits."""

    @property
    def p_value(self) -> float:
        """Of the hypothesis that the sample follows the target, corrected for every test made."""
        if self.impossible:
            return 0.0
        return min(1.0, min((p for p, _ in self._corrected()), default=1.0))

    @property
    def worst(self) -> checks.Check | None:
        """The test with the least corrected p-value."""
        found = sorted(self._corrected(), key=lambda pair: pair[0])
        return found[0][1] if found else None

    def level_of(self, family: str, *, level: float) -> float:
        """Level at which each test of a family is made when the whole is made at `level`."""
        return level * SHARES[family] / max(1, len(self.by_family[family]))

    def _corrected(self) -> Iterator[tuple[float, checks.Check]]:
        for family, made in self.by_family.items():
            for check in made:
                yield check.p_value * len(made) / SHARES[family], check


def run(evidence: Evidence, *, deterministic: bool) -> Battery:
    """Makes every test the sample has enough for.

    Args:
        evidence: the sample.
        deterministic: whether draft tokens are a function of what came before, so that a token's
            law stays the target's when its draft is known. Sampled drafts are not.
    """
    families = {
        "law": _law(evidence, deterministic=deterministic),
        "where": _where(evidence, deterministic=deterministic),
        "repeats": _repeats(evidence),
        "dependence": _dependence(evidence),
    }
    return Battery(
        by_family={
            name: tuple(check for check in made if check is not None)
            for name, made in families.items()
        },
        impossible=int(evidence.features.impossible_N.sum()),
    )


def scope(evidence: Evidence) -> checks.Mask:
    """The tokens tested first: those of verification steps, if there are any."""
    speculated = evidence.state_N != PLAIN
    return speculated if speculated.any() else np.ones(len(evidence), np.bool_)


def _law(e: Evidence, *, deterministic: bool) -> Iterator[checks.Check | None]:
    f, mask = e.features, scope(e)
    yield checks.surprise("surprise", f, mask=mask)
    yield checks.top("top", f, mask=mask)
    for name in PARTITIONS:
        yield checks.cells(name, f.partitions[name], mask=mask)
    yield checks.uniform("uniform", f.spread_N[mask])
    yield checks.uniform("uniform ranked", f.ranked_N[mask])
    yield checks.rare("rare", f, mask=np.ones(len(e), np.bool_))
    if deterministic:
        yield _drafts("drafts", e, mask=e.state_N == VERIFIED)
    variance = float(e.lean_var_N[mask].sum())
    yield checks.normal("towards the drafter", float(e.lean_N[mask].sum()), variance=variance)


def _where(e: Evidence, *, deterministic: bool) -> Iterator[checks.Check | None]:
    for name, mask in _strata(e):
        if mask.any() and not mask.all():
            yield checks.surprise(f"surprise, {name}", e.features, mask=mask)
            yield checks.cells(f"rank, {name}", e.features.partitions["rank"], mask=mask)
            if deterministic and (e.draft_mass_N[mask] > 0).any():
                yield _drafts(f"drafts, {name}", e, mask=mask & (e.state_N == VERIFIED))


def _strata(e: Evidence) -> Iterator[tuple[str, checks.Mask]]:
    """Where a defect may hide. Each is decided before its tokens are sampled."""
    yield "without draft", e.state_N == PLAIN
    yield "verified", e.state_N == VERIFIED
    yield "after all drafts", e.state_N == BONUS
    for i in range(1, 5):
        yield f"place {i} of a step", e.index_N == i
    for length in (1, 2, 3):
        yield f"after a step of {length}", (e.index_N == 0) & (e.previous_N == length)
    yield "first token", e.position_N == 0
    yield "second token", e.position_N == 1
    yield "tokens 3 to 8", (e.position_N >= 2) & (e.position_N < 8)
    yield "late tokens", e.position_N >= max(8, int(np.median(e.position_N)))


def _repeats(e: Evidence) -> Iterator[checks.Check | None]:
    found = repeats.tally(e.context_N, e.features.partitions["rank"])
    yield repeats.pooled("repeated contexts", found)
    yield repeats.most("one context", found)


def _dependence(e: Evidence) -> Iterator[checks.Check | None]:
    u, f = e.features.spread_N, e.position_N
    next_ = (e.request_N[1:] == e.request_N[:-1]) & (f[1:] == f[:-1] + 1)
    yield checks.product("token to token", u[:-1][next_], u[1:][next_])
    # Keys sort by position, then request: neighbours are the same position of two requests.
    order = np.lexsort((e.request_N, f))
    same = f[order][1:] == f[order][:-1]
    yield checks.product("request to request", u[order][:-1][same], u[order][1:][same])


def _drafts(name: str, e: Evidence, *, mask: checks.Mask) -> checks.Check | None:
    return checks.drafts(name, e.draft_hit_N[mask].astype(float), e.draft_mass_N[mask])


def power(
    evidence: Evidence, battery: Battery, *, setting: Setting, level: float, share: float = 1.0
) -> dict[str, float]:
    """Probability that the tests of the law would have rejected each planted bias.

    A lower bound: the best single test counts. Biases are supposed wherever a law has room for
    them; elsewhere a bias would show as tokens that are never, or next to never, emitted.

    Args:
        evidence: the sample.
        battery: its tests.
        setting: that it was asked for with: states the distance. Of laws that filters have cut,
            it is the average over all tokens, so more in the few that have room, up to `MOST`
            times.
        level: the battery's.
        share: of the tokens of `scope`, in which the bias is supposed.

    Returns:
        By tilt, those that reach half of the stated distance on average, where there is room.
    """
    each = battery.level_of("law", level=level)
    made = {check.name: check for check in battery.by_family["law"]}
    f, found, distance = evidence.features, dict[str, float](), setting.distance
    mask = scope(evidence)
    spreads = {n: checks.spread_of(f.partitions[n], mask=mask) for n in PARTITIONS if n in made}
    for tilt in TILTS:
        if f.open and f.room[tilt] >= ROOM * distance * f.open:
            times = min(MOST, distance * f.counted / f.room[tilt]) if setting.filtered else 1.0
            found[tilt] = _power(
                evidence, made, spreads, tilt=tilt, level=each, share=share * times
            )
    return found


def _power(
    e: Evidence,
    made: dict[str, checks.Check],
    spreads: dict[str, checks.Spread | None],
    *,
    tilt: str,
    level: float,
    share: float,
) -> float:
    mask, parts, found = scope(e), e.features.partitions, [0.0]

    def add(name: str, shift: float) -> None:
        found.append(checks.shifted_power(made[name], shift=shift, level=level))

    if "surprise" in made:
        deviation = float(e.features.surprise_var_N[mask].sum()) ** 0.5
        add("surprise", share * e.features.surprise_shift[tilt] / deviation)
    if "top" in made:
        mass = parts["rank"].mass_NK[mask, 0]
        moved = float(parts["rank"].shift[tilt][0])
        add("top", share * moved / float((mass * (1 - mass)).sum()) ** 0.5)
    for name, spread in spreads.items():
        if spread is not None:
            add(name, share**2 * spread.form(parts[name].shift[tilt]))
    return max(found)
