"""JSON Schema (2020-12) of answers, by `jsonschema`; this is the only import of it."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, NoReturn, cast

from gfcr.errors import ConfigError, did_you_mean, shown


def read(text: str) -> Any:
    """Returns the value that a text is.

    Raises:
        ValueError: it is no JSON; NaN and Infinity are none.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def fits(value: Any, *, schema: Mapping[str, Any]) -> bool:
    """Returns whether a value is what a schema says, which `check_schema` has let pass."""
    try:
        return _validator(json.dumps(schema)).is_valid(value)
    except RecursionError:  # a schema that refers to itself, and a value as deep
        return False


def check_schema(schema: Mapping[str, Any], *, key: str) -> None:
    """Refuses a schema that is wrong, or that would check less than it seems to.

    Raises:
        ConfigError: it is none, or has a keyword, format or reference that would check nothing.
    """
    jsonschema, referencing = import_module("jsonschema"), import_module("referencing.jsonschema")
    try:
        plain = json.loads(json.dumps(schema))
        jsonschema.Draft202012Validator.check_schema(plain)
    except (TypeError, ValueError, jsonschema.SchemaError) as error:
        path = getattr(error, "json_path", "$").removeprefix("$")
        told = str(error).splitlines()[0]
        raise ConfigError(f"{key}{path} is not what JSON Schema has there: {told}.") from error
    whole = referencing.DRAFT202012.create_resource(plain)
    unresolvable: Any = import_module("referencing.exceptions").Unresolvable
    # Nothing of other addresses is known to it, so that nothing is fetched from the network.
    resolver = import_module("referencing").Registry().resolver_with_root(whole)
    for inner in _within(whole):
        _check(inner, key=key)
        for refer in inner.keys() & {"$ref", "$dynamicRef"}:
            try:
                resolver.lookup(inner[refer])
            except unresolvable as error:
                raise ConfigError(
                    f"{key}: {refer}={shown(inner[refer])} is not in the schema: refer to a part "
                    "of it, such as #/$defs/NAME."
                ) from error


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Returns what checks values against a schema, which is JSON."""
    kind = import_module("jsonschema").Draft202012Validator
    return kind(json.loads(schema), format_checker=kind.FORMAT_CHECKER)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _within(resource: Any) -> Iterator[Mapping[str, Any]]:
    """Yields a schema and all schemas in it; those that are only true or false are left out."""
    contents: Any = resource.contents
    if isinstance(contents, dict):
        yield cast("dict[str, Any]", contents)
    for inner in resource.subresources():
        yield from _within(inner)


def _check(schema: Mapping[str, Any], *, key: str) -> None:
    """Refuses what JSON Schema lets pass as a remark: a misspelt keyword would check nothing."""
    known = _keywords()
    for word in schema:
        if word not in known:
            near = did_you_mean(word, known)
            raise ConfigError(f"{key}: unknown keyword {word!r} in {shown(schema)}.{near}")
    formats = import_module("jsonschema").Draft202012Validator.FORMAT_CHECKER.checkers
    if (wanted := schema.get("format", "date")) not in formats:
        raise ConfigError(
            f"{key}: format={shown(wanted)} cannot be checked here. Allowed: "
            f"{', '.join(sorted(formats))}; or give a pattern."
        )


@lru_cache(maxsize=1)
def _keywords() -> frozenset[str]:
    """Returns the keywords of JSON Schema 2020-12, as its own schemas list them."""
    known = import_module("jsonschema_specifications").REGISTRY
    own = (known.contents(uri) for uri in known if "/2020-12/" in uri)
    return frozenset(word for each in own for word in each.get("properties", ()))
