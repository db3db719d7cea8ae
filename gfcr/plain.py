"""Plain YAML values: checked, merged, and converted to the types a dataclass declares."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, make_dataclass
from inspect import isabstract
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gfcr.errors import ConfigError, unknown_name


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


def merge(
    schema: type[Any], values: Mapping[str, Any], changes: Mapping[str, Any], *, where: str
) -> dict[str, Any]:
    """Merges changes into values, strictly typed by a dataclass's init fields.

    Raises:
        ConfigError: unknown key, wrong type or missing value, naming the key and what is allowed.
    """
    fields = {f.name: f for f in dataclasses.fields(schema) if f.init}
    hints = get_type_hints(schema)
    for key in changes:
        if key not in fields:
            raise unknown_name(str(key), kind="key", allowed=fields, where=where)
    merged = {**values, **changes}
    for name, f in fields.items():
        if name not in merged and is_required(f):
            raise ConfigError(f"{where}.{name} is missing: give a {type_name(hints[name])}.")
    return _typed({k: (hints[k], v) for k, v in merged.items()}, where=where)


def check_types(function: Callable[..., Any], values: Mapping[str, Any], *, where: str) -> None:
    """Checks keyword arguments against a function's annotations."""
    hints = get_type_hints(function)
    _typed({k: (hints[k], v) for k, v in values.items()}, where=where)


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a dataclass field has no default."""
    return field.default is MISSING and field.default_factory is MISSING


def type_name(hint: Any) -> str:
    """A type as people write it."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _typed(values: Mapping[str, tuple[Any, Any]], *, where: str) -> dict[str, Any]:
    """Converts values to their annotated types with OmegaConf, one at a time to name the key."""
    return {k: _convert(v, hint, key=f"{where}.{k}") for k, (hint, v) in values.items()}


def _convert(value: Any, hint: Any, *, key: str) -> Any:
    if isabstract(hint) and isinstance(value, hint):
        return value  # a part, which OmegaConf has no schema for
    try:
        schema = OmegaConf.structured(make_dataclass("Schema", [("value", _concrete(hint))]))
        merged = OmegaConf.merge(schema, {"value": value})
        return (
            OmegaConf.to_object(merged.value) if OmegaConf.is_config(merged.value) else merged.value
        )
    except OmegaConfBaseException as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{key}={value!r} is not allowed: give a {type_name(hint)} ({reason})."
        ) from error


def _concrete(hint: Any) -> Any:
    """OmegaConf knows `dict` and `list` only, not the abstract kinds a signature should name."""
    origin, args = get_origin(hint), tuple(_concrete(a) for a in get_args(hint))
    if origin in (Union, UnionType):
        return Union[args]  # noqa: UP007 - the members are known at run time only
    concrete: Any = {Mapping: dict, Sequence: list}.get(origin)
    return concrete[args] if concrete else hint
