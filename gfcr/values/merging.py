"""Files and their bases read, and values merged over values by OmegaConf."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gfcr.errors import ConfigError, shown
from gfcr.values import reading
from gfcr.values.plain import is_mapping, leaves, mapping

PARTS: Final = (
    *("task", "strategy", "engine", "trainer", "schedule", "tracking", "launcher", "stopping"),
)
"""Keys that name a part, alone (`strategy: dapo`) or with its settings."""

_ANY: Final = {"allow_objects": True}


def read(path: str | Path) -> dict[str, Any]:
    """Reads a YAML file and, first, the files its `base` key names, from first to last.

    Raises:
        ConfigError: it cannot be read (see `gfcr.values.reading`), is empty, or is its own base.
    """
    merged: dict[str, Any] = {}
    for file, values in layers(path):
        merged = merge(merged, values, where=str(file))
    return merged


def layers(path: str | Path) -> list[tuple[Path, dict[str, Any]]]:
    """Returns what a file and its bases say, each by itself, the outermost base first.

    Raises:
        ConfigError: as `read`.
    """
    return _layers(Path(path), above=())


def _layers(here: Path, *, above: tuple[Path, ...]) -> list[tuple[Path, dict[str, Any]]]:
    try:
        values = reading.read(here)
    except ConfigError as error:
        if not above:
            raise
        raise ConfigError(f"{above[0]}: base is not to be had: {error}") from error
    if here.resolve() in [p.resolve() for p in above] or len(above) > reading.MOST_DEPTH:
        chain = " -> ".join(p.name for p in (*above, here))
        raise ConfigError(f"{here}: base: files are each other's base ({chain}): leave one out.")
    if not values:
        raise ConfigError(f"{here} is empty: give at least `strategy: {{name: grpo}}`.")
    own = mapping(values, where=str(here), example="strategy: {name: grpo}")
    base: Any = own.pop("base", None)
    bases: list[Any] = [] if base is None else base if isinstance(base, list) else [base]
    if not all(isinstance(each, str) and each for each in bases):
        raise ConfigError(
            f"{here}: base={shown(base)} is not allowed: give a file's path, or a list of them."
        )
    found = [_layers(here.parent / each, above=(*above, here)) for each in bases]
    return [*(layer for inner in found for layer in inner), (here, own)]


def merge(
    base: Mapping[str, Any], changes: Mapping[str, Any], *, where: str = "values"
) -> dict[str, Any]:
    """Merges two experiments' values; a part under another name replaces the base's.

    Raises:
        ConfigError: an interpolation is malformed.
    """
    own = spelt(changes)
    try:
        trees = [OmegaConf.create(_listed(v), flags=_ANY) for v in (_kept(base, own), own)]
        merged = OmegaConf.to_container(OmegaConf.unsafe_merge(*trees), resolve=False)
    except OmegaConfBaseException as error:
        key = str(error.full_key or error.key)
        said = next((v for k, v in leaves({**base, **own}) if ".".join(k) == key), "")
        raise ConfigError(
            f"{where}: {key}={shown(said)} is not allowed: {str(error).splitlines()[0]}."
        ) from error
    return cast("dict[str, Any]", merged)


def _listed(value: Any) -> Any:
    """Plain values with lists for tuples, which OmegaConf holds to their length."""
    if is_mapping(value):
        return {key: _listed(inner) for key, inner in value.items()}
    return [_listed(v) for v in value] if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownVariableType]


def _kept(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base without the insides of parts that come under another name."""
    kept = dict(base)
    for key, change in changes.items():
        old = kept.get(key)
        if is_mapping(old) and is_mapping(change):
            kept[key] = {} if _renamed(old, change) else _kept(old, change)
        elif isinstance(old, Mapping | list) and isinstance(change, Mapping | list):
            kept[key] = None  # a list for a mapping, or a list for a list, is another value
    return kept


def spelt(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with parts that are given by name alone as mappings."""
    return {
        key: {"name": value} if key in PARTS and isinstance(value, str) else value
        for key, value in values.items()
    }


def _renamed(old: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
    return "name" in old and change.get("name", old["name"]) != old["name"]
