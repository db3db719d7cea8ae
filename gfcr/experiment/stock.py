"""In what a run's strategy is not the one that its name stands for.

A strategy can be made to lose by a knob of its own, and a table would still call it by its name:
the run's record says what differs, and the leaderboard repeats it.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Final

from gfcr import strategy as strategies
from gfcr.errors import shortened
from gfcr.strategy import Strategy
from gfcr.tracking.names import NOT_OURS, fit_param, flatten

_ABSENT: Final = ("{}", "null")
_ORDERED: Final = ("filters", "controls", "replays")


def unlike_stock(spec: Mapping[str, Any], *, name: str) -> str:
    """Returns what differs from the stock strategy in words; empty where nothing does.

    Args:
        spec: of the strategy as it was built.
        name: what the experiment calls it; `NOT_OURS` is returned for one that is not gfcr's.
    """
    function = strategies.find(name)
    needs = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if not function.__module__.startswith(f"{strategies.PACKAGE}.") or needs:
        return NOT_OURS
    stock = function()
    assert isinstance(stock, Strategy), "every function in the package makes a strategy"
    usual = stock.spec()
    given, theirs = (
        {key: fit_param(value) for key, value in flatten(each).items()} for each in (spec, usual)
    )
    return shortened(", ".join([*_changes(given, stock=theirs), *_reordered(spec, stock=usual)]))


def _changes(given: Mapping[str, str], *, stock: Mapping[str, str]) -> list[str]:
    """Parts that were added or removed, then values that differ, each with the stock one."""
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
    """Values by the address of their part; those of none, such as `group_size`, under ``."""
    parts: dict[str, dict[str, str]] = {}
    for key, value in params.items():
        path = key.split(".")
        depth = 0 if len(path) == 1 else 2 if path[0] in _ORDERED else 1
        if depth or value not in _ABSENT:
            part, rest = ".".join(path[:depth]), ".".join(path[depth:])
            parts.setdefault(part, {})[rest] = value
    return parts


def _reordered(spec: Mapping[str, Any], *, stock: Mapping[str, Any]) -> list[str]:
    """Stages whose parts are the stock ones in another order, which parameters do not tell."""
    return [
        f"{stage} in another order ({', '.join(spec[stage])})"
        for stage in _ORDERED
        if [*spec[stage]] != [*stock[stage]] and {*spec[stage]} == {*stock[stage]}
    ]
