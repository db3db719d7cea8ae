"""The power of a sample: the probability that each planted bias would have been rejected.

It depends on the laws met, never on the tokens drawn. It is a lower bound: the best single test's.
Biases are supposed wherever a law has room for them; elsewhere a bias would show as tokens that are
never, or next to never, emitted.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

import numpy as np

from gfcr.audit import battery, checks, shifts
from gfcr.audit.battery import Families, Tail
from gfcr.audit.checks import Check
from gfcr.audit.evidence import Evidence
from gfcr.audit.shifts import DRAFT, POSITION, TILTS, Shifts
from gfcr.certificate.cell import POWER
from gfcr.certificate.settings import Setting

LATE: Final = 0.05
"""Total variation of biases from some position on, to the end, that an audited length excludes."""
FAR: Final = 0.1
"""The same for biases in steps that verify drafts of some length or longer."""
MOST: Final = 10.0
"""Times the stated distance that a planted bias may take where filtered laws have room."""
ROOM: Final = 0.5
"""Share of the stated distance that a tilt must reach, where there is room, to count as planted."""
MANY: Final = 1_000.0
"""Times its size to which a sample is supposed to grow, at most, to say how many are wanted."""


@final
@dataclass(frozen=True, kw_only=True)
class Powers:
    """Powers of the tests of one sample."""

    e: Evidence
    families: Families
    setting: Setting
    """Setting that the sample was asked for with. If filters cut laws, its distance is an average
    over all tokens, so larger in the few that have room, up to `MOST` times."""
    level: float
    """Level of the whole battery."""
    share: float
    """Share of the tokens of the scope in which biases are supposed."""
    size: float = 1.0
    """How many samples like this one power is computed of, together."""

    def of_law(self) -> dict[str, float]:
        """Power by planted bias of `setting.distance` in every token of `battery.scope`."""
        return self._by_tilt("law", self.e.shifts.tail(DRAFT), times=self.share)

    def wanted(self) -> int:
        """Tokens in all that would show every planted bias, about; 0 if no number would."""

        def least(size: float) -> float:
            return min(replace(self, size=size).of_law().values(), default=0.0)

        sizes = np.geomspace(1, MANY, 200).tolist()
        at = bisect_left(sizes, POWER, key=least)
        return int(sizes[at] * len(self.e)) if at < len(sizes) else 0

    def of_lengths(self) -> dict[str, float]:
        """Power by position, against biases of `LATE` from there on; the least of all tilts."""
        tails = battery.tails(self.e, kind=POSITION)
        return {str(shifts.start(t.first)): self._least(t, distance=LATE) for t in tails}

    def of_drafts(self, *, deterministic: bool) -> dict[str, float]:
        """Power by draft length, against biases of `FAR` in steps with drafts at least as long.

        For drafts that are drawn at random, the bias is in how many of them are kept.
        """
        power = partial(self._least, distance=FAR * self.share) if deterministic else self._kept
        return {str(shifts.start(t.first)): power(t) for t in battery.tails(self.e, kind=DRAFT)}

    def _least(self, tail: Tail, *, distance: float) -> float:
        moved, place = self.e.shifts.tail(tail.kind, first=tail.first), f", {tail.name}"
        times = distance / self.setting.distance
        found = self._by_tilt("length", moved, times=times, place=place)
        return min(found.values(), default=0.0)

    def _kept(self, tail: Tail) -> float:
        """Power against keeping drafts too often or too seldom, by `FAR` where there is room."""
        check = self._made("length").get(f"drafts, {tail.name}")
        if check is None or check.spread is None:
            return 0.0
        level = battery.level_of(self.families, "length", level=self.level)
        mass = self.e.draft_mass_N[tail.mask & ~np.isnan(self.e.draft_mass_N)]
        moved = np.array([np.minimum(FAR, 1 - mass).sum(), np.minimum(FAR, mass).sum()])
        shift = min(check.spread.form(moved[:1]), check.spread.form(moved[1:]))
        return checks.shifted_power(check, shift=shift, level=level)

    def _made(self, family: str) -> dict[str, Check]:
        return {check.name: check for check in self.families[family]}

    def _by_tilt(
        self, family: str, moved: Shifts, *, times: float, place: str = ""
    ) -> dict[str, float]:
        """Power by tilt, for tilts that reach half of the stated distance on average."""
        made, setting = self._made(family), self.setting
        level = battery.level_of(self.families, family, level=self.level)
        found: dict[str, float] = {}
        for number, tilt in enumerate(TILTS):
            room, open_ = float(moved.room_T[number]), float(moved.open)
            if not open_ or room < ROOM * setting.distance * open_:
                continue
            more = setting.distance * float(moved.counted) / room if setting.filtered else 1
            scale = self.size * (times * min(MOST, more)) ** 2
            shifts_ = (
                (check, scale * check.spread.form(sums[number]))
                for name, sums in moved.tests.items()
                if (check := made.get(name + place)) and check.spread
            )
            powers = (checks.shifted_power(c, shift=s, level=level) for c, s in shifts_)
            found[tilt] = max(powers, default=0.0)
        return found
