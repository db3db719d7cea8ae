"""`gfcr show`."""

import argparse
import inspect
from typing import Any

from rich.markup import escape

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome
from gfcr.errors import unknown_name
from gfcr.part import Part

HELP = "Show a strategy (its parts, formulas and knobs) or a part (its mechanism and fields)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a name `gfcr list` gives, `module:Name` or `file.py:Name`")


def run(options: argparse.Namespace) -> Outcome:
    """Describes by name; a strategy wins over a part of the same name."""
    name = str(options.name)
    kind = kind_of(name)
    if name in strategies.names() or (":" in name and kind is None):
        return _strategy(name, also=[kind] if kind else [])
    if kind:
        return _part(kind, name)
    every = [*strategies.names(), *(n for kind in registry.KINDS for n in registry.names(kind))]
    raise unknown_name(name, kind="name", allowed=every)


def kind_of(name: str) -> str | None:
    """Returns the kind of the part called `name`, or at that address; None for anything else.

    Raises:
        ConfigError: there is nothing at the address.
    """
    if ":" not in name:
        return next((kind for kind in registry.KINDS if name in registry.names(kind)), None)
    found = registry.load_object(name)
    if not isinstance(found, type) or not issubclass(found, Part):
        return None
    bases = {kind: registry.load_object(base) for kind, base in registry.BASES.items()}
    return next(
        (k for k, base in bases.items() if isinstance(base, type) and issubclass(found, base)), None
    )


def _strategy(name: str, *, also: list[str]) -> Outcome:
    function = strategies.find(name)
    built = strategies.load(name)
    knobs = {
        p.name: {"default": p.default, "type": inspect.formatannotation(p.annotation)}
        for p in inspect.signature(function).parameters.values()
    }
    parts = [_described(address, part) for address, part in built.parts.items()]
    data = {
        "name": name,
        "kind": "strategy",
        "doc": inspect.getdoc(function) or "",
        "knobs": knobs,
        "parts": parts,
        "loss": built.spec()["loss"],
        "spec": built.spec(),
        "also_a_part_of": also,
    }
    return Outcome(data=data, text=_text(data))


def _described(address: str, part: Part) -> dict[str, Any]:
    kind = address.partition(".")[0].removesuffix("s")
    spec = registry.spec(kind, part)
    return {
        "address": address,
        "name": spec.pop("name"),
        "paper": part.paper,
        "doc": inspect.getdoc(type(part)) or "",
        "values": spec,
    }


def _part(kind: str, name: str) -> Outcome:
    part = registry.find(kind, name)
    doc, fields = inspect.getdoc(part) or "", registry.fields_of(part)
    data = {"name": name, "kind": kind, "paper": part.paper, "doc": doc, "fields": fields}
    lines = [
        f"  [bold]{f['name']}[/] = {escape(f['default'])}  [dim]{escape(f['type'])}[/]  "
        f"{escape(f['doc'])}"
        for f in fields
    ]
    head = f"[bold]{name}[/] ({kind}" + (f", arXiv {part.paper})" if part.paper else ")")
    return Outcome(data=data, text="\n".join([head, "", escape(doc), "", *lines]))


def _text(data: dict[str, Any]) -> str:
    lines = [f"[bold]{data['name']}[/] (strategy)", "", escape(data["doc"]), "", "[bold]Knobs[/]"]
    lines += [
        f"  {k} = {v['default']}  [dim]{escape(v['type'])}[/]" for k, v in data["knobs"].items()
    ]
    for part in data["parts"]:
        paper = f"  arXiv {part['paper']}" if part["paper"] else ""
        lines += ["", f"[bold]{part['address']}[/]: {part['name']}{paper}"]
        lines += [f"  [dim]{escape(line)}[/]" for line in part["doc"].splitlines()]
        lines += [f"  {key} = {value!r}" for key, value in part["values"].items()]
    loss = ", ".join(f"{k}={v}" for k, v in data["loss"].items())
    return "\n".join([*lines, "", f"[bold]loss[/]: {loss}"])
