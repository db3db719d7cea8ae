"""`gfcr show`."""

import argparse
import inspect
from dataclasses import replace
from itertools import pairwise
from typing import Any

from rich.markup import escape

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome, named
from gfcr.commands.named import Named
from gfcr.part import Part
from gfcr.shown.folded import folded

_FULL = 90
"""Columns of a docstring's line that no other word would have gone into."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help=named.HELP)


def run(options: argparse.Namespace) -> Outcome:
    """Describes a name; a strategy is preferred to a part of the same name, with a note."""
    found = named.find(str(options.name))
    shown = _part(found) if found.is_part else _strategy(found)
    also = [f"gfcr show {other}" for other in found.also]
    told = [f"{found.name} is also something else: {', '.join(also)}"] if also else []
    return replace(shown, text=folded([*shown.text, *told]))


def _strategy(found: Named) -> Outcome:
    name = found.name
    function = strategies.find(name)
    built = strategies.load(name)
    knobs = {
        p.name: {"default": p.default, "type": inspect.formatannotation(p.annotation)}
        for p in inspect.signature(function).parameters.values()
    }
    parts = [_described(address, part) for address, part in built.parts.items()]
    loss = built.spec()["loss"]
    if loss["estimator"] != "dpo":  # nobody else reads it
        del loss["beta"]
    data = {
        "name": name,
        "kind": "strategy",
        "doc": inspect.getdoc(function) or "",
        "knobs": knobs,
        "parts": parts,
        "loss": loss,
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
    lines = [f"[bold]{name}[/] ({kind}" + (f", arXiv {part.paper})" if part.paper else ")"), ""]
    lines += [*map(escape, _flowing(doc)), ""]
    for f in fields:
        lines += [f"  [bold]{f['name']}[/] = {escape(f['default'])}  [dim]{escape(f['type'])}[/]"]
        lines += [f"    {escape(' '.join(f['doc'].split()))}"] if f["doc"] else []
    return Outcome(data=data, text=lines)


def _text(data: dict[str, Any]) -> list[str]:
    lines = [f"[bold]{data['name']}[/] (strategy)", "", *map(escape, _flowing(data["doc"]))]
    lines += ["", "[bold]Knobs[/]"]
    lines += [
        f"  {k} = {v['default']}  [dim]{escape(v['type'])}[/]" for k, v in data["knobs"].items()
    ]
    for part in data["parts"]:
        paper = f"  arXiv {part['paper']}" if part["paper"] else ""
        lines += ["", f"[bold]{part['address']}[/]: {part['name']}{paper}"]
        lines += [f"  {escape(line)}" for line in _flowing(part["doc"])]
        lines += [f"  {key} = {escape(repr(value))}" for key, value in part["values"].items()]
    loss = ", ".join(f"{k}={v}" for k, v in data["loss"].items())
    return [*lines, "", f"[bold]loss[/]: {loss}"]


def _flowing(doc: str) -> list[str]:
    """Returns lines, each with those behind it that a file's width alone has broken off."""
    lines = list[str]()
    for last, line in pairwise(["", *doc.splitlines()]):
        word = next(iter(line.split()), ":")  # nothing, or a label, begins a line of its own
        if last and not word.endswith(":") and len(f"{last} {word}") > _FULL:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return lines
