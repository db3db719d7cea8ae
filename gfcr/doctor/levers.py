"""Which levers a run's own experiment can be given."""

from collections.abc import Iterable, Mapping
from typing import Any

from gfcr import strategy as strategies
from gfcr.config import parse_overrides
from gfcr.doctor.rule import Lever
from gfcr.errors import GfcrError
from gfcr.strategy import Strategy


def fitting(levers: Iterable[Lever], *, spec: Mapping[str, Any]) -> tuple[Lever, ...]:
    """Returns those that the run's strategy takes and that change it.

    A strategy that cannot be made here, as its code lies elsewhere, is asked nothing: all are
    given.
    """
    try:
        own = strategies.from_spec(spec["strategy"])
    except GfcrError:
        return tuple(levers)
    return tuple(lever for lever in levers if _fits(lever, own=own))


def _fits(lever: Lever, *, own: Strategy) -> bool:
    changes = parse_overrides(lever.overrides).get("strategy")
    if changes is None:
        return True
    try:
        name = changes.pop("name", None)
        if name is None:
            changed = strategies.override(own, changes)
        else:
            changed = strategies.load(name, **changes)
        changed.check()
    except GfcrError:
        return False
    return changed.spec() != own.spec()
