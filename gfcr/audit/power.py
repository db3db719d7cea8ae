"""What a sample could have shown: the probability that each planted bias would be rejected.

It depends on the laws met and never on the tokens drawn. Lower bounds: the best single test counts.
Biases are supposed wherever a law has room for them; elsewhere a bias would show as tokens that are
never, or next to never, emitted.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from gfcr.audit import battery, checks, shifts
from gfcr.audit.battery import Families
from gfcr.audit.evidence import Evidence
from gfcr.audit.features import Array
from gfcr.audit.shifts import DRAFT, POSITION, Shifts
from gfcr.audit.tilts import TILTS
from gfcr.certificate.cell import FAR, LATE, MOST
from gfcr.certificate.settings import Setting

ROOM: Final = 0.5
"""Share of the stated distance that a planted bias must reach, where there is room, to be one."""


def of_law(
    e: Evidence, families: Families, *, setting: Setting, level: float, share: float = 1.0
) -> dict[str, float]:
    """By planted bias of `setting.distance` in every token of `battery.scope`.

    Args:
        e: the sample.
        families: its tests.
        setting: that it was asked for with. Of laws that filters have cut, the distance is the
            average over all tokens, so more in the few that have room, up to `MOST` times.
        level: of the whole battery.
        share: of the tokens of the scope, in which the bias is supposed.
    """
    each = battery.level_of(families, "law", level=level)
    made = {check.name: check for check in families["law"]}
    return _powers(
        e,
        made,
        e.shifts.tail(DRAFT),
        mask=battery.scope(e),
        place="",
        level=each,
        times=share,
        setting=setting,
    )


def of_lengths(
    e: Evidence, families: Families, *, setting: Setting, level: float
) -> dict[str, float]:
    """By position: against biases of `LATE` from there to the end. The least over the tilts."""
    return dict(_tails(e, families, kind=POSITION, distance=LATE, setting=setting, level=level))


def of_drafts(
    e: Evidence,
    families: Families,
    *,
    setting: Setting,
    level: float,
    deterministic: bool,
    share: float = 1.0,
) -> dict[str, float]:
    """By draft length: against biases of `FAR` in steps with drafts as long or longer.

    Where drafts are drawn at random, the bias is in how many of them are kept.
    """
    if deterministic:
        distance = FAR * share
        return dict(
            _tails(e, families, kind=DRAFT, distance=distance, setting=setting, level=level)
        )
    each = battery.level_of(families, "length", level=level)
    made = {check.name: check for check in families["length"]}
    return {
        str(shifts.start(tail.first)): _kept(
            e, made.get(f"drafts, {tail.name}"), mask=tail.mask, level=each
        )
        for tail in battery.tails(e, kind=DRAFT)
    }


def _tails(
    e: Evidence,
    families: Families,
    *,
    kind: int,
    distance: float,
    setting: Setting,
    level: float,
) -> Iterator[tuple[str, float]]:
    each = battery.level_of(families, "length", level=level)
    made = {check.name: check for check in families["length"]}
    for tail in battery.tails(e, kind=kind):
        found = _powers(
            e,
            made,
            e.shifts.tail(kind, first=tail.first),
            mask=tail.mask,
            place=f", {tail.name}",
            level=each,
            times=distance / setting.distance,
            setting=setting,
        )
        yield str(shifts.start(tail.first)), min(found.values(), default=0.0)


def _kept(e: Evidence, check: checks.Check | None, *, mask: checks.Mask, level: float) -> float:
    """Power against keeping drafts too often, or too seldom, by `FAR` where there is room."""
    if check is None:
        return 0.0
    mass = e.draft_mass_N[mask & ~np.isnan(e.draft_mass_N)]
    spread = float((mass * (1 - mass)).sum()) ** 0.5
    moved = (np.minimum(FAR, 1 - mass).sum(), np.minimum(FAR, mass).sum())
    return min(checks.shifted_power(check, shift=float(m) / spread, level=level) for m in moved)


def _powers(
    e: Evidence,
    made: dict[str, checks.Check],
    moved: Shifts,
    *,
    mask: checks.Mask,
    place: str,
    level: float,
    times: float,
    setting: Setting,
) -> dict[str, float]:
    """By tilt, those that reach half of the stated distance on average, where there is room."""
    found: dict[str, float] = {}
    for tilt in TILTS:
        room, open_ = float(moved.room[tilt]), float(moved.open)
        if not open_ or room < ROOM * setting.distance * open_:
            continue
        more = min(MOST, setting.distance * float(moved.counted) / room) if setting.filtered else 1
        scale = times * more
        best = _best(e, made, moved, mask=mask, place=place, tilt=tilt, scale=scale, level=level)
        found[tilt] = best
    return found


def _best(
    e: Evidence,
    made: dict[str, checks.Check],
    moved: Shifts,
    *,
    mask: checks.Mask,
    place: str,
    tilt: str,
    scale: float,
    level: float,
) -> float:
    parts, found = e.features.partitions, [0.0]

    def add(name: str, shift: float) -> None:
        found.append(checks.shifted_power(made[name + place], shift=shift, level=level))

    if f"surprise{place}" in made:
        deviation = float(e.features.surprise_var_N[mask].sum()) ** 0.5
        add("surprise", scale * float(moved.surprise[tilt]) / deviation)
    if f"top{place}" in made:
        mass = parts["rank"].mass_NK[mask, 0]
        add("top", scale * float(moved.cells[tilt]["rank"][0]) / _deviation(mass))
    for name in parts:
        check = made.get(name + place)
        if check is not None and check.spread is not None:
            add(name, scale**2 * check.spread.form(moved.cells[tilt][name]))
    return max(found)


def _deviation(mass: Array) -> float:
    return float((mass * (1 - mass)).sum()) ** 0.5
