"""Which levers a run's own experiment can be given."""

from collections.abc import Iterable, Mapping
from typing import Any

from gfcr import strategy as strategies
from gfcr.config import parse_overrides
from gfcr.doctor.rule import Lever
from gfcr.errors import GfcrError
from gfcr.strategy import Strategy
from gfcr.values.plain import is_mapping


def fitting(levers: Iterable[Lever], *, spec: Mapping[str, Any]) -> tuple[Lever, ...]:
    """Returns those that the run's strategy takes and that change the experiment.

    A strategy that cannot be made here, as its code lies elsewhere, is asked nothing: all are
    given.
    """
    try:
        own = strategies.from_spec(spec["strategy"])
    except GfcrError:
        return tuple(levers)
    return tuple(lever for lever in levers if _fits(lever, own=own, spec=spec))


def _fits(lever: Lever, *, own: Strategy, spec: Mapping[str, Any]) -> bool:
    changes = parse_overrides(lever.overrides)
    asked = changes.pop("strategy", None)
    if asked is None:
        return _differs(changes, spec)
    try:
        name = asked.pop("name", None)
        if name is None:
            changed = strategies.override(own, asked)
        else:
            changed = strategies.load(name, **asked)
        changed.check()
    except GfcrError:
        return False
    return changed.spec() != own.spec() or _differs(changes, spec)


def _differs(changes: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
    """Whether any value is another than the one held."""
    return any(
        _differs(value, held.get(key) or {}) if is_mapping(value) else held.get(key) != value
        for key, value in changes.items()
    )
