"""`gfcr show`."""

import argparse
import inspect
from dataclasses import replace
from typing import Any

from rich.markup import escape

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome, named
from gfcr.commands.named import Named
from gfcr.part import Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help=named.HELP)


def run(options: argparse.Namespace) -> Outcome:
    """Describes a name; a strategy is preferred to a part of the same name, with a note."""
    found = named.find(str(options.name))
    shown = _part(found) if found.is_part else _strategy(found)
    also = [f"gfcr show {other}" for other in found.also]
    text = f"\n{found.name} is also something else: {', '.join(also)}" if also else ""
    return replace(shown, text=f"{shown.text}{text}")


def _strategy(found: Named) -> Outcome:
    name = found.name
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
        "also": found.also,
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


def _part(found: Named) -> Outcome:
    kind, name = found.kind, found.name
    part = registry.find(kind, name)
    doc, fields = inspect.getdoc(part) or "", registry.fields_of(part)
    data: dict[str, Any] = {"name": name, "kind": kind, "paper": part.paper, "doc": doc}
    data |= {"fields": fields, "also": found.also}
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
