"""In what an arm's strategy is not the one that its name stands for.

A strategy can be made to lose by a knob of its own, and the table would still call it by its name.
Reading a store runs nobody's code: of strategies only gfcr's own are made, by that name's function
in `strategies/` whatever a distribution has installed under it; of any other the name is told.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gfcr.strategy import PACKAGE, Strategy
from gfcr.tracking.names import fit_param, flatten
from gfcr.tracking.records import RunRecord

_KEY = "strategy."
_ABSENT = ("{}", "null")
_ORDERED = ("filters", "controls", "replays")


def overridden(arms: Mapping[str, Sequence[RunRecord]], *, baseline: str) -> list[str]:
    """Returns a sentence for each arm whose strategy is not stock, the baseline's first."""
    told: list[str] = []
    for arm in sorted(arms, key=lambda arm: (arm != baseline, arm)):
        run = arms[arm][0]
        given = {k.removeprefix(_KEY): v for k, v in run.params.items() if k.startswith(_KEY)}
        if "name" not in given:
            continue
        name = given["name"]
        stock = _stock(name)
        if stock is None:
            told.append(f"{arm}: its strategy is not gfcr's: {name}.")
            continue
        unlike = [*_changes(given, stock=stock.params), *_reordered(run, stock=stock.order)]
        if unlike:
            told.append(f"{arm} is not stock {name}: {', '.join(unlike)}.")
    return told


@dataclass(frozen=True, kw_only=True)
class _Stock:
    """gfcr's own strategy with its defaults, in the words of a record."""

    params: Mapping[str, str]
    order: Mapping[str, Sequence[str]]
    """Names of the parts of each ordered stage."""


@lru_cache
def _stock(name: str) -> _Stock | None:
    package = importlib.import_module(PACKAGE)
    if name.startswith("_") or name not in {m.name for m in pkgutil.iter_modules(package.__path__)}:
        return None
    make: Callable[..., Strategy] = getattr(importlib.import_module(f"{PACKAGE}.{name}"), name)
    if any(p.default is p.empty for p in inspect.signature(make).parameters.values()):
        return None  # ours need nothing; a file that somebody added may
    spec = make().spec()
    return _Stock(
        params={key: fit_param(value) for key, value in flatten(spec).items()},
        order={stage: [part["name"] for part in spec[stage].values()] for stage in _ORDERED},
    )


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


def _reordered(run: RunRecord, *, stock: Mapping[str, Sequence[str]]) -> list[str]:
    """Stages whose parts are the stock ones in another order, which parameters do not tell."""
    found = {stage: run.tags.get(f"gfcr.{stage}", "").split("+") for stage in _ORDERED}
    return [
        f"{stage} in another order ({', '.join(names)})"
        for stage, names in found.items()
        if names != [*stock[stage]] and sorted(names) == sorted(stock[stage])
    ]
