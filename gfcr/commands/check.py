"""`gfcr check`."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.markup import escape

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome, named
from gfcr.errors import GfcrError, described
from gfcr.part import Part
from gfcr.strategy import Strategy
from gfcr.testing import laws
from gfcr.values.overrides import parse_overrides

_BASE = "grpo"
"""The strategy in which a part is tried."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help=named.HELP)
    parser.add_argument("settings", nargs="*", help="KEY=VALUE for the part or strategy")


def run(options: argparse.Namespace) -> Outcome:
    """Checks the laws; exit code 1 where one is broken."""
    settings = parse_overrides(options.settings)
    found = named.find(str(options.name), parts_first=True)
    name, kind = found.name, found.kind if found.is_part else None
    part = registry.build(kind, {"name": name, **settings}) if kind else None
    plan = _around(kind, part) if kind and part else strategies.load(name, **settings)
    held = [] if part is None else [_held(law, kind, part) for law in laws.PART_LAWS]
    if plan is not None:
        held += _ran(plan)
    broken = [law for law in held if law["broken"]]
    data = {"name": name, "kind": found.kind, "laws": held, "broken": len(broken)}
    lines = [f"{'[red]no[/] ' if h['broken'] else '[green]yes[/]'} {_text(h)}" for h in held]
    return Outcome(data=data, text="\n".join(lines), code=1 if broken else 0)


def _around(kind: str, part: Part) -> Strategy | None:
    """Returns a strategy with the part in it; None for a part that belongs to no stage."""
    base = strategies.load(_BASE, group_size=4)
    match kind:
        case "generate":
            return replace(base, generate=part)
        case "filter":
            mapped = bool(getattr(part, "gives_advantages", None))
            return replace(base, filters={"it": part} if mapped else {"it": part, **base.filters})
        case "control":
            return replace(base, controls={"it": part})
        case "replay":
            return replace(base, replays={"it": part}, correction=None)
        case _:
            return None


def _ran(plan: Strategy) -> list[dict[str, Any]]:
    try:
        plan.check()
        ran = laws.run(plan)
    except GfcrError as error:
        return [{"law": "it runs", "broken": str(error)}]
    return [{"law": "it runs", "broken": ""}, *(_held(law, ran) for law in laws.STRATEGY_LAWS)]


def _held(law: Callable[..., None], *asked: Any) -> dict[str, Any]:
    try:
        law(*asked)
    except laws.LawError as error:
        broken = str(error)
    except Exception as error:
        broken = described(error)
    else:
        broken = ""
    return {"law": (law.__doc__ or "").strip().rstrip("."), "broken": broken}


def _text(found: dict[str, Any]) -> str:
    return found["law"] + (f": [red]{escape(found['broken'])}[/]" if found["broken"] else "")
