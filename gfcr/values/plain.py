"""Plain values, as files and the command line give them, against what functions and fields take."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, TypeGuard, get_type_hints

from gfcr.errors import ConfigError, unknown_name
from gfcr.values.ranges import conform, describe, hints_of


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a mapping (YAML keys are taken as strings)."""
    return isinstance(value, Mapping)


def mapping(value: object, *, where: str, example: str = "") -> dict[str, Any]:
    """The value as a dict.

    Raises:
        ConfigError: it is no mapping.
    """
    if not is_mapping(value):
        hint = f" such as `{example}`" if example else ""
        raise ConfigError(f"{where}={value!r} is not allowed: give a mapping{hint}.")
    return dict(value)


def leaves(
    values: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields every value by the keys that lead to it; an empty mapping is a value."""
    for key, value in values.items():
        if is_mapping(value) and value:
            yield from leaves(value, (*above, str(key)))
        else:
            yield (*above, str(key)), value


def at(values: object, keys: Sequence[str]) -> object:
    """What stands where keys lead; None where nothing does."""
    for key in keys:
        values = values.get(key) if is_mapping(values) else None
    return values


def merge(
    schema: type[Any], values: Mapping[str, Any], changes: object, *, where: str
) -> dict[str, Any]:
    """Merges changes into values, as a dataclass's init fields take them.

    Raises:
        ConfigError: unknown key, wrong type, out of range or missing, naming the key and what is
            allowed.
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
    """Returns keyword arguments as a function's annotations take them; errors as `merge`."""
    hints = get_type_hints(function, include_extras=True)
    return {k: conform(v, hints.get(k, Any), key=f"{where}.{k}") for k, v in values.items()}


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a dataclass field has no default."""
    return field.default is MISSING and field.default_factory is MISSING
