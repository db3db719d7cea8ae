"""`gfcr schema`."""

import argparse
import dataclasses
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from gfcr import config as configs
from gfcr import registry
from gfcr import strategy as strategies
from gfcr.code.described import field_docs
from gfcr.commands import Outcome
from gfcr.search.space import Search
from gfcr.sweep.factors import DESIGNS
from gfcr.values import merging, types
from gfcr.values.ranges import hints_of
from gfcr.values.types import Schema

_ADDRESS = {"type": "string", "pattern": ":"}
"""An address of one's own code, as `file.py:Name`, whose keys are not known."""
_DOTTED: Schema = {"type": "object", "not": {"propertyNames": {"pattern": "^[^.]*$"}}}
"""A mapping with at least one key of an experiment, such as `trainer.learning_rate`."""
_OPEN: Schema = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}
"""A value that is interpolated, or must be given."""
_SEEDS = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--study", action="store_true", help="of studies, in place of experiments")


def run(options: argparse.Namespace) -> Outcome:
    made = of_files(study=options.study)
    return Outcome(data=made, plain=json.dumps(made, indent=1))


def of_files(*, study: bool) -> Schema:
    """Returns the schema, from the dataclasses that files are read into and their ranges."""
    kinds = {registry.load_object(base): _ref(kind) for kind, base in registry.BASES.items()}
    defs = {
        kind: _named(
            {n: _record(registry.find(kind, n), kinds=kinds) for n in registry.names(kind)}
        )
        for kind in registry.KINDS
    }
    defs["strategy"] = _strategy(kinds)
    parts = {key: _ref(key) for key in merging.PARTS}
    evaluation = {"sampling": _record(configs.Sampling), "generate": _ref("generate")}
    records = {key: _record(kind) for key, kind in configs.RECORDS.items()}
    records["evaluation"] = _record(configs.Evaluation, instead=evaluation)
    keys: Schema = _record(configs.Experiment, instead={**parts, **records})["properties"]
    del keys["written"]
    file = {"type": "string"}
    about = "A file whose values come first, or several, from first to last."
    keys["base"] = {"anyOf": [file, {"type": "array", "items": file}], "description": about}
    if study:
        defs["arm"] = _closed(keys)
        named = {"type": "object", "additionalProperties": _or_null({"$ref": "#/$defs/arm"})}
        level = {"anyOf": [{"type": "null"}, _ref("strategy"), _DOTTED]}
        named_levels = {"type": "object", "additionalProperties": level}
        levels = {"anyOf": [named_levels, {"type": "array", "minItems": 2}]}
        keys = {
            **keys,
            "seeds": _SEEDS,
            "arms": named,
            "factors": {"type": "object", "additionalProperties": levels},
            "design": {"enum": [*DESIGNS]},
            "search": _record(Search),
            "stopping": _or_null(_ref("stopping")),
            "launcher": _ref("launcher"),
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"gfcr {'study' if study else 'experiment'}",
        **_closed({key: _or_open(held) for key, held in keys.items()}),
        "$defs": defs,
    }


def _strategy(kinds: Mapping[Any, Schema]) -> Schema:
    def mapped(kind: str) -> Schema:
        return {"type": "object", "additionalProperties": _or_null(_ref(kind))}

    names: Schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    addresses = {
        "generate": _ref("generate"),
        **{f"{kind}s": mapped(kind) for kind in ("filter", "control", "replay")},
        "drafter": {"anyOf": [{"enum": ["none", None]}, _ref("drafter")]},
        "correction": _or_null(_ref("correction")),
        "loss": _record(strategies.Loss),
        "order": _closed({f"{kind}s": names for kind in ("filter", "control", "replay")}),
    }
    found: dict[str, Schema] = {}
    for name in strategies.names():
        function = strategies.find(name)
        hints = get_type_hints(function, include_extras=True)
        taken = inspect.signature(function).parameters
        knobs = {key: _or_open(types.schema(hints[key], instead=kinds)) for key in taken}
        found[name] = {
            "description": (inspect.getdoc(function) or "").partition("\n")[0],
            "properties": {**knobs, **addresses},
        }
    return _named(found)


def _record(
    kind: type[Any],
    *,
    instead: Mapping[str, Schema] | None = None,
    kinds: Mapping[Any, Schema] | None = None,
) -> Schema:
    """Returns a dataclass's schema, from its fields' annotations, docstrings and defaults."""
    docs, hints = field_docs(kind), hints_of(kind)
    keys: dict[str, Schema] = {}
    for field in dataclasses.fields(kind):
        if field.init:
            own = types.schema(hints[field.name], instead=kinds or {})
            keys[field.name] = _or_open((instead or {}).get(field.name, own))
            if doc := docs.get(field.name):
                keys[field.name] = {**keys[field.name], "description": doc}
            if isinstance(field.default, (str, int, float)):
                keys[field.name] = {**keys[field.name], "default": field.default}
    return {"description": (inspect.getdoc(kind) or "").partition("\n")[0], **_closed(keys)}


def _named(found: Mapping[str, Schema]) -> Schema:
    """Returns the schema of `NAME`, or of `{name: NAME, ...}` with the keys of that part.

    Without `name`, keys change the part of the base file or strategy: keys of any part are allowed.
    """
    names = {"anyOf": [{"enum": [*found]}, _ADDRESS]}
    every: dict[str, list[Schema]] = {}
    for each in found.values():
        for key, held in each["properties"].items():
            every.setdefault(key, []).append(held)
    cases: Sequence[Schema] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": _closed({"name": names, **each["properties"]}, about=each["description"]),
        }
        for name, each in found.items()
    ]
    unnamed: Schema = {
        "if": {"not": {"required": ["name"]}},
        "then": _closed({key: {"anyOf": held} for key, held in every.items()}),
    }
    whole = {"type": "object", "properties": {"name": names}, "allOf": [*cases, unnamed]}
    return {"if": {"type": "object"}, "then": whole, "else": names}


def _closed(keys: Mapping[str, Schema], *, about: str = "") -> Schema:
    made: Schema = {"type": "object", "properties": dict(keys), "additionalProperties": False}
    return {"description": about, **made} if about else made


def _ref(kind: str) -> Schema:
    return {"$ref": f"#/$defs/{kind}"}


def _or_open(inner: Schema) -> Schema:
    return {"anyOf": [inner, _OPEN]}


def _or_null(inner: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, inner]}
