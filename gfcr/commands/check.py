"""`gfcr check`."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.markup import escape

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome, named, spoken
from gfcr.errors import ConfigError, GfcrError, described
from gfcr.part import Part
from gfcr.strategy import Strategy
from gfcr.testing import laws
from gfcr.testing.task_laws import laws_of
from gfcr.values.overrides import apply_overrides

_RUNS = "It runs"
_IN_A_STRATEGY = ["generate", "filter", "control", "replay", "correction", "environment", "tool"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help=named.HELP)
    parser.add_argument("settings", nargs="*", help="KEY=VALUE for the part or strategy")
    parser.add_argument(
        "--task", metavar="'NAME KEY=VALUE'", help="run it on this task, not on tossed coins"
    )
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="'NAME KEY=VALUE'",
        help="a part that it needs before it, or a strategy to be part of; may be repeated",
    )


def run(options: argparse.Namespace) -> Outcome:
    """Checks the laws; exit code 1 where one is broken, or could not be asked."""
    settings = apply_overrides({}, options.settings)
    found = named.find(str(options.name), parts_first=True)
    name, kind = found.name, found.kind
    _heard(options, kind=kind)
    task = registry.build("task", spoken(options.task, flag="--task")) if options.task else None
    if found.is_part:
        part = registry.build(kind, {"name": name, **settings})
        held = [_held(law, kind, part) for law in laws_of(kind, part)]
        plan = _around(kind, part, after=options.after)
        task = part if kind == "task" else task
    else:
        held, plan = list[dict[str, Any]](), strategies.load(name, **settings)
    held += _ran(plan, task=task) if plan else [_found(_RUNS, unasked=f"no {kind} is run here")]
    broken, unasked = (sum(bool(law[key]) for law in held) for key in ("broken", "unasked"))
    data = {"name": name, "kind": kind, "laws": held, "broken": broken, "unasked": unasked}
    return Outcome(data=data, text="\n".join(map(_text, held)), code=int(broken + unasked > 0))


def _heard(options: argparse.Namespace, *, kind: str) -> None:
    """Refuses an option that would change nothing for what is checked."""
    heard = {"--task": {*_IN_A_STRATEGY, named.STRATEGY}, "--after": {*_IN_A_STRATEGY, "task"}}
    for flag, kinds in heard.items():
        if getattr(options, flag[2:]) and kind not in kinds:
            told = f"{flag} would go unheard: {options.name} is of the kind `{kind}`"
            raise ConfigError(f"{told}, it is for {', '.join(sorted(kinds))}. Leave it out.")


def _around(kind: str, part: Any, *, after: Sequence[str]) -> Strategy | None:
    """Returns a strategy with the part in it; None for a kind that no strategy is run with."""
    plan = strategies.load("grpo", group_size=max(4, part.fewest() if kind == "filter" else 0))
    for number, text in enumerate(after):
        spec = spoken(text, flag="--after")
        found = named.find(str(spec.pop("name")), parts_first=True)
        if not found.is_part:
            plan = strategies.load(found.name, **spec)
            continue
        other = registry.build(found.kind, {"name": found.name, **spec})
        plan = _with(plan, kind=found.kind, part=other, at=f"after_{number}") or plan
    return plan if kind == "task" else _with(plan, kind=kind, part=part, at="it")


def _with(plan: Strategy, *, kind: str, part: Part, at: str) -> Strategy | None:
    """Returns the strategy with a part more: a filter before the map or in its place, or last."""
    match kind:
        case "generate" | "correction":
            return replace(plan, **{kind: part})
        case "filter" if not [*plan.filters][-1].startswith("after_"):
            *others, mapped = plan.filters.items()
            held = [] if getattr(part, "gives_advantages", None) else [mapped]
            return replace(plan, filters=dict([*others, (at, part), *held]))
        case "filter" | "control" | "replay":
            return replace(plan, **{f"{kind}s": {**getattr(plan, f"{kind}s"), at: part}})
        case "environment" | "tool":
            name = {"environment": "episode", "tool": "multi_turn"}[kind]
            spec = {"name": name, kind: registry.spec(kind, part)}
            return replace(plan, generate=registry.build("generate", spec))
        case _:
            return None


def _ran(plan: Strategy, *, task: Any) -> list[dict[str, Any]]:
    try:
        plan.check()
        ran = laws.run(plan, task=task)
    except Exception as error:
        told = str(error) if isinstance(error, GfcrError) else described(error)
        rest = [_found(_words(law), unasked="it does not run") for law in laws.STRATEGY_LAWS]
        return [_found(_RUNS, broken=told), *rest]
    return [_found(_RUNS), *(_held(law, ran) for law in laws.STRATEGY_LAWS)]


def _held(law: Callable[..., None], *asked: Any) -> dict[str, Any]:
    try:
        law(*asked)
    except (laws.LawError, GfcrError) as error:
        return _found(_words(law), broken=str(error))
    except Exception as error:
        return _found(_words(law), broken=described(error))
    return _found(_words(law))


def _words(law: Callable[..., None]) -> str:
    return (law.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _found(law: str, *, broken: str = "", unasked: str = "") -> dict[str, Any]:
    return {"law": law, "broken": broken, "unasked": unasked}


def _text(found: dict[str, Any]) -> str:
    if not (told := found["unasked"] or found["broken"]):
        return f"[green]yes[/] {found['law']}"
    word = "[yellow]not asked[/]" if found["unasked"] else "[red]no[/]"
    return f"{word} {found['law']}: {escape(told)}"
