"""Tells how a run's strategy differs from the stock strategy of the same name.

An arm can be made to lose by changing a knob of its strategy, and a table would still show the
stock name: so the run's record says what differs, and the leaderboard repeats it.
"""

from collections.abc import Mapping
from typing import Any, Final

from gfcr import strategy as strategies
from gfcr.errors import shortened
from gfcr.tracking.names import NOT_OURS, fit_param, flatten

_ABSENT: Final = ("{}", "null")
_ORDERED: Final = ("filters", "controls", "replays")


def unlike_stock(spec: Mapping[str, Any], *, name: str) -> str:
    """Returns in words what differs from the stock strategy; empty where nothing does.

    Args:
        spec: the spec of the strategy as it was built.
        name: its name in the experiment; `NOT_OURS` is returned for one that is not gfcr's.
    """
    function = strategies.find(name)
    if not function.__module__.startswith(f"{strategies.PACKAGE}."):
        return NOT_OURS
    usual = strategies.load(name).spec()
    given, theirs = (
        {key: fit_param(value) for key, value in flatten(each).items()} for each in (spec, usual)
    )
    return shortened(", ".join(_changes(given, stock=theirs)))


def with_order(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a strategy's spec with its unusual orders of parts, under `order`.

    Parts act in their order, and a digest of the spec does not see that of its keys. Usual is the
    order of gfcr's strategy of that name, with the others behind in that of the alphabet.
    """
    name, orders = spec["name"], dict[str, list[str]]()
    stock = strategies.load(name).spec() if name in strategies.names() else {}
    for stage in _ORDERED:
        given = [*spec[stage]]
        usual = [part for part in stock.get(stage, ()) if part in given]
        if given != [*usual, *sorted({*given} - {*usual})]:
            orders[stage] = given
    return {**spec, "order": orders} if orders else {**spec}


def _changes(given: Mapping[str, str], *, stock: Mapping[str, str]) -> list[str]:
    """Lists parts that were added or removed, then changed values, each with the stock value."""
    ours, theirs = _parts(given), _parts(stock)
    told: list[str] = []
    for part in sorted({*ours, *theirs}):
        mine, usual = ours.get(part, {}), theirs.get(part, {})
        if not usual:
            values = ", ".join(f"{key}={value}" for key, value in sorted(mine.items()))
            told.append(f"{part} added ({values})")
        elif not mine:
            told.append(f"{part} removed")
        else:
            told += [
                f"{'.'.join(filter(None, (part, key)))}={mine.get(key, 'none')} "
                f"(stock {usual.get(key, 'none')})"
                for key in sorted({*mine, *usual})
                if mine.get(key) != usual.get(key)
            ]
    return told


def _parts(params: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns values by the address of their part; those without one, as `group_size`, under ``."""
    parts: dict[str, dict[str, str]] = {}
    for key, value in params.items():
        path = key.split(".")
        depth = 0 if len(path) == 1 else 2 if path[0] in _ORDERED else 1
        if depth or value not in _ABSENT:
            part, rest = ".".join(path[:depth]), ".".join(path[depth:])
            parts.setdefault(part, {})[rest] = value
    return parts
