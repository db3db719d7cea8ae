"""Checks on plain YAML values."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from gfcr.errors import ConfigError


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
