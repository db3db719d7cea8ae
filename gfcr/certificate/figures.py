"""Whether a certificate's figures can be those of an audit, and what they say."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

from gfcr.certificate.cell import LEVEL, MOST, NONE, POWER, SHARES, Cell, Verdict, judged, worst
from gfcr.certificate.settings import RUN, SETTINGS, law_of
from gfcr.types import Sampling
from gfcr.values.plain import is_mapping

_SHARES = ("p_value", "level", "power", "distance")
_COUNTS = (
    *("tokens", "speculated", "drafted", "accepted", "unclear", "impossible", "ends"),
    *("longest", "longest_draft", "unreported"),
)


def problem_of(cells: Iterable[Cell], *, drafts: bool) -> str:
    """Why the cells are not those of an audit; empty when they may be.

    Args:
        cells: as they were read.
        drafts: whether the certificate is about a drafter.
    """
    held = list(cells)
    if not held:
        return "it has no cells"
    for cell in held:
        found = _impossible(cell, drafts=drafts)
        if not found and (now := judged(cell).verdict) is not cell.verdict:
            found = f"it states {cell.verdict}, its figures say {now}"
        if found:
            return f"cell {cell.setting}: {found}"
    return ""


def _impossible(cell: Cell, *, drafts: bool) -> str:
    # Of a biased cell, log-probs may lie infinitely far off, or be none.
    if cell.verdict is not Verdict.BIASED and (odd := _no_number(asdict(cell))):
        return f"{odd} is no finite number"
    for name in _SHARES:
        if not 0 <= getattr(cell, name) <= 1:
            return f"{name} is {getattr(cell, name)}"
    for name in _COUNTS:
        if getattr(cell, name) < 0 or getattr(cell, name) != int(getattr(cell, name)):
            return f"{name} is {getattr(cell, name)}"
    if cell.refused:
        return ""
    return _unlike_its_setting(cell, drafts=drafts) or _unlike_each_other(cell)


def _unlike_its_setting(cell: Cell, *, drafts: bool) -> str:
    setting = SETTINGS.get(cell.setting)
    if cell.setting != RUN and setting is None:
        return "there is no such setting"
    law = law_of(Sampling()) if setting is None else setting.law
    if {*cell.law} != {*law} or (setting is not None and dict(cell.law) != law):
        return f"its law is {dict(cell.law)}"
    if setting is not None and cell.distance > setting.distance:
        return f"its distance is {cell.distance}, the setting's is {setting.distance}"
    if not 0 < cell.level <= LEVEL:
        return f"its level is {cell.level}, an audit's is {LEVEL}"
    if drafts != (cell.drafter != NONE):
        return f"its drafter is '{cell.drafter}'"
    return ""


def _unlike_each_other(cell: Cell) -> str:
    if cell.accepted > cell.drafted or cell.speculated > cell.tokens:
        return "it accepted more than it drafted, or speculated more than it sampled"
    if unknown := {*cell.tests} - {*SHARES}:
        return f"there are no tests '{', '.join(sorted(unknown))}'"
    if any(not 0 <= p <= 1 for made in cell.tests.values() for p in made.values()):
        return "a test has no p-value"
    if cell.verdict is not Verdict.LOSSLESS:
        return ""
    return _unproved(cell)


def _unproved(cell: Cell) -> str:
    """What a lossless cell lacks."""
    told = cell.tokens if cell.drafter == NONE else cell.speculated
    if cell.drafter != NONE and not cell.drafted:
        return "nothing was drafted"
    # n tokens of laws that differ by d in total variation differ by 1 - (1 - d)^n at most.
    least = 1 - (1 - min(1.0, MOST * cell.distance)) ** told
    if cell.power > cell.level + least + 1e-9:
        return f"{told} tokens cannot show a {cell.distance:.0%} bias with power {cell.power:.3f}"
    if cell.greedy:
        return ""
    if not any(cell.tests.values()) or not cell.power_of:
        return "it has no tests, or no planted biases"
    if min(cell.power_of.values()) < min(cell.power, POWER):
        return "its power is not the least over its planted biases"
    if cell.p_value > min(1.0, worst(cell.tests).p_value) * (1 + 1e-9):
        return "its p-value is larger than its tests give"
    return ""


def _no_number(values: Mapping[str, Any]) -> str:
    """The name of a figure that is not finite, or of another type."""
    for name, value in values.items():
        if is_mapping(value):
            if inner := _no_number(value):
                return f"{name}.{inner}"
        elif not isinstance(value, str) and not (
            isinstance(value, int | float) and isfinite(value)
        ):
            return name
    return ""
