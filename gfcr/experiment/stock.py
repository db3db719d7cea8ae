"""Tells how a run's strategy differs from the stock strategy of the same name.

An arm can be made to lose by changing a knob of its strategy, and a table would still show the
stock name: so the run's record says what differs, and the leaderboard repeats it.
"""

from collections.abc import Mapping
from typing import Any, Final

from gfcr import strategy as strategies
from gfcr.errors import shortened
from gfcr.tracking.names import NOT_OURS, fit_param, flatten
from gfcr.values.plain import is_mapping
from gfcr.values.settings import ABSENT, differences

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
    found = differences(spec, strategies.load(name).spec())
    told = sorted(_told(".".join(key), now, stock) for key, now, stock in found)
    return shortened(", ".join(told))


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


def _told(key: str, now: object, stock: object) -> str:
    if is_mapping(now):
        return f"{key} {'replaced' if is_mapping(stock) else 'added'} ({_text(now)})"
    if is_mapping(stock):
        return f"{key} removed"
    return f"{key}={_text(now)} (stock {_text(stock)})"


def _text(value: object) -> str:
    """Returns a value as records have it; of a part its settings, by name."""
    if is_mapping(value):
        return ", ".join(f"{k}={fit_param(text)}" for k, text in sorted(flatten(value).items()))
    return "none" if value is ABSENT else fit_param(flatten({"": value})[""])
