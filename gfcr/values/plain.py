"""Checks plain values, from files and the command line, against functions and dataclasses."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, TypeGuard, cast, get_type_hints

from gfcr.errors import ConfigError, shown, unknown_name
from gfcr.values.ranges import conform, describe, hints_of


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tells whether a value is a mapping (YAML keys are taken as strings)."""
    return isinstance(value, Mapping)


def mapping(value: object, *, where: str, example: str = "") -> dict[str, Any]:
    """Returns a mapping as a dict.

    Raises:
        ConfigError: the value is no mapping.
    """
    if not is_mapping(value):
        hint = f" such as `{example}`" if example else ""
        raise ConfigError(f"{where}={shown(value)} is not allowed: give a mapping{hint}.")
    return dict(value)


def leaves(
    values: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields every value with the keys that lead to it; an empty mapping counts as a value."""
    for key, value in values.items():
        if is_mapping(value) and value:
            yield from leaves(value, (*above, str(key)))
        else:
            yield (*above, str(key)), value


def scalars(value: object, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value that holds no others, with its dotted key as OmegaConf writes it."""
    if is_mapping(value):
        for key, inner in value.items():
            yield from scalars(inner, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(cast("Sequence[object]", value)):
            yield from scalars(inner, f"{above}[{number}]")
    else:
        yield above, value


def at(values: object, keys: Sequence[str]) -> object:
    """Returns the value at a path of keys; None where there is none."""
    for key in keys:
        values = values.get(key) if is_mapping(values) else None
    return values


def merge(
    schema: type[Any], values: Mapping[str, Any], changes: object, *, where: str
) -> dict[str, Any]:
    """Merges changes into values, and checks them against a dataclass's init fields.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type or is out of
            range; names the key and what is allowed.
    """
    hints = hints_of(schema)
    given = mapping(changes, where=where)
    for key in given:
        if key not in hints:
            raise unknown_name(str(key), kind="key", allowed=hints, where=where)
    merged = {**values, **given}
    for field in dataclasses.fields(schema):
        if field.init and field.name not in merged and is_required(field):
            wanted = describe(hints[field.name])
            raise ConfigError(f"{where}.{field.name} is missing: give {wanted}.")
    return {k: conform(v, hints[k], key=f"{where}.{k}") for k, v in merged.items()}


def typed(function: Callable[..., Any], values: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Returns keyword arguments converted to a function's annotations; errors as `merge`."""
    hints = get_type_hints(function, include_extras=True)
    return {k: conform(v, hints.get(k, Any), key=f"{where}.{k}") for k, v in values.items()}


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Tells whether a dataclass field has no default."""
    return field.default is MISSING and field.default_factory is MISSING


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Returns a dataclass field's default."""
    return field.default if field.default_factory is MISSING else field.default_factory()
