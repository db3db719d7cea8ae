"""Compares and changes mappings of parts to their settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from gfcr.errors import ConfigError, shown
from gfcr.values.plain import is_mapping

T = TypeVar("T")

ABSENT: Final = object()
"""Stands for the value of a key that one of two mappings lacks."""
_SPELT_OUT: Final = ((), ("strategy",))
"""Places where different names do not hide the other differences."""


def differences(
    one: Any, other: Any, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yields keys with both values; a part of one side, or of another name, is yielded whole."""
    if one == other:
        return
    inside = is_mapping(one) and is_mapping(other)
    if inside and (above in _SPELT_OUT or one.get("name") == other.get("name")):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(one.get(key, ABSENT), other.get(key, ABSENT), (*above, key))
    else:
        yield above, one, other


def with_values(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes values; a part within the part keeps those not named, unless it is a new one."""
    merged = {**spec, **changes}
    for key, change in changes.items():
        before = spec.get(key)
        if is_mapping(before) and "name" in before and is_mapping(change) and "name" not in change:
            merged[key] = with_values(before, change)
    return merged


def ordered(values: Mapping[str, T], names: object, *, where: str) -> dict[str, T]:
    """Returns the values with those of the names first, in this order.

    Raises:
        ConfigError: the names are no list, or one of them is not there or is there twice.
    """
    given = cast("Sequence[object]", names) if type(names) in (list, tuple) else ()
    first = [name for name in given if isinstance(name, str) and name in values]
    if not given or len({*first}) < len(given):
        raise ConfigError(
            f"{where}={shown(names)} is not allowed: give a list of the names that come first, "
            f"each once, of {', '.join(values) or 'none'}."
        )
    return {name: values[name] for name in [*first, *(n for n in values if n not in first)]}
