"""Reads files with their bases, and merges values over values by OmegaConf.

OmegaConf is imported where it is used, so that `gfcr --help` does not load it.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from gfcr.errors import ConfigError, did_you_mean, shortened, shown
from gfcr.values import reading
from gfcr.values.plain import at, is_mapping, leaves, mapping

if TYPE_CHECKING:
    from omegaconf import DictConfig

PARTS: Final = (
    *("task", "strategy", "engine", "trainer", "schedule", "tracking", "launcher", "stopping"),
)
"""Keys that name a part, alone (`strategy: dapo`) or with its settings."""
MISSING: Final = "???"
"""Stands for a value that must be given, by another file or by an override."""
_WITHIN: Final = ("generate", "drafter", "correction")
"""Keys of a strategy or an evaluation, or of a part within, that do."""


def read(path: str | Path) -> dict[str, Any]:
    """Reads a YAML file merged over the files that its `base` key names, in their order.

    Raises:
        ConfigError: it cannot be read (see `gfcr.values.reading`), is empty, or is its own base.
    """
    (_, first), *others = layers(path)
    merged = spelt(first)
    for file, values in others:
        merged = merge(merged, values, where=str(file))
    return merged


def layers(path: str | Path) -> list[tuple[Path, dict[str, Any]]]:
    """Returns the values of a file and of its bases, each by itself, the outermost base first.

    Raises:
        ConfigError: as `read`.
    """
    return _layers(Path(path), above=())


def _layers(here: Path, *, above: tuple[Path, ...]) -> list[tuple[Path, dict[str, Any]]]:
    with suppress(OSError, ValueError):  # a name that no file can have: `read` says so
        here = own if (own := here / "config.yaml").is_file() else here  # a run's folder
    try:
        values = reading.read(here)
    except ConfigError as error:
        if not above:
            raise
        raise ConfigError(f"{above[0]}: base is not to be had: {shortened(str(error))}") from error
    if here.resolve() in [p.resolve() for p in above] or len(above) > reading.MOST_DEPTH:
        chain = " -> ".join(p.name for p in (*above, here))
        raise ConfigError(f"{here}: base: files are each other's base ({chain}): leave one out.")
    if not values:
        raise ConfigError(f"{here} is empty: give at least `strategy: {{name: grpo}}`.")
    held = mapping(values, where=str(here), example="strategy: {name: grpo}")
    bases = bases_of(held.pop("base", None), where=str(here))
    found = [_layers(here.parent / each, above=(*above, here)) for each in bases]
    return [*(layer for inner in found for layer in inner), (here, held)]


def bases_of(base: object, *, where: str) -> list[str]:
    """Returns the paths that a `base` key names.

    Raises:
        ConfigError: it is neither a path nor a list of paths.
    """
    named = cast("list[Any]", base if isinstance(base, list) else [] if base is None else [base])
    if not all(isinstance(each, str | Path) and str(each) for each in named):
        raise ConfigError(
            f"{where}: base={shown(cast(object, base))} is not allowed: give a file's path, or a "
            "list of them."
        )
    return [str(each) for each in named]


def merge(
    base: Mapping[str, Any], changes: Mapping[str, Any], *, where: str = "values"
) -> dict[str, Any]:
    """Merges two experiments' values; a part under another name replaces the base's.

    A part of the base without a name is the default one, so that any name given is another one.

    Raises:
        ConfigError: an interpolation is malformed, or null is given for an arm or a factor.
    """
    kept, own = spelt(base), spelt(changes)
    _refuse_nulls(kept, own, where=where)
    return combine(_named(kept, own, parts=PARTS), own, where=where)


def _named(
    base: Mapping[str, Any], changes: Mapping[str, Any], *, parts: Sequence[str]
) -> dict[str, Any]:
    """Returns the base without the settings of nameless parts for which the changes name one."""
    kept = dict(base)
    for key in parts:
        old, new = kept.get(key), changes.get(key)
        if is_mapping(old) and is_mapping(new):
            other = "name" in new and "name" not in old
            kept[key] = {} if other else _named(old, new, parts=_WITHIN)
    return kept


def _refuse_nulls(base: Mapping[str, Any], changes: Mapping[str, Any], *, where: str) -> None:
    """Refuses null for an arm, a factor or a level: it would be one that changes nothing.

    A study file's own `grpo:` says that; over an arm that has settings, or under a name that no
    arm has, somebody wants it gone, and would compare the baseline with itself.
    """
    factors = base.get("factors")
    crossed = [("factors", name) for name in (factors if is_mapping(factors) else ())]
    for key in [("arms",), ("factors",), *crossed]:
        before, after, place = at(base, key), at(changes, key), ".".join(map(str, key))
        if not (is_mapping(before) and before and is_mapping(after)):
            continue
        for name in (n for n, change in after.items() if change is None and before.get(n, 1)):
            raise ConfigError(
                f"{where}: {place}.{name}=null is not allowed: it would change nothing, and be "
                f"compared. There are: {', '.join(map(str, before))}."
                f"{did_you_mean(str(name), map(str, before)) if name not in before else ''} To "
                f"take one out, give ~{place}.NAME on the command line; `{{}}` adds one that "
                "changes nothing."
            )


def combine(
    first: Mapping[str, Any], second: Mapping[str, Any], *, where: str = "values"
) -> dict[str, Any]:
    """Combines changes, of which one may name a part and another give its settings.

    Raises:
        ConfigError: an interpolation is malformed.
    """
    from omegaconf import OmegaConf

    own = spelt(second)
    with naming(where, values={**first, **own}):
        trees = [tree_of(values) for values in (_kept(first, own), own)]
        merged = OmegaConf.to_container(OmegaConf.unsafe_merge(*trees), resolve=False)
    return cast("dict[str, Any]", merged)


def tree_of(values: Mapping[str, Any]) -> "DictConfig":
    """Returns plain values as an OmegaConf config."""
    from omegaconf import OmegaConf

    return cast("DictConfig", OmegaConf.create(_listed(values), flags={"allow_objects": True}))


@contextmanager
def naming(where: str, *, values: Mapping[str, Any]) -> Generator[None]:
    """Turns OmegaConf's errors into ones that name the value and its key."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except OmegaConfBaseException as error:
        key = str(error.full_key or error.key)
        text = next((v for k, v in leaves(values) if ".".join(k) == key), "")
        raise ConfigError(
            f"{where}: {key}={shown(text)} is not allowed: {str(error).splitlines()[0]}."
        ) from error


def _listed(value: Any) -> Any:
    """Returns values with lists for tuples, since OmegaConf keeps a tuple's length."""
    if is_mapping(value):
        return {key: _listed(inner) for key, inner in value.items()}
    return [_listed(v) for v in value] if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownVariableType]


def _kept(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the base without the settings of parts that the changes replace by others."""
    kept = dict(base)
    for key, change in changes.items():
        old = kept.get(key)
        if is_mapping(old) and is_mapping(change):
            renamed = "name" in old and change.get("name", old["name"]) != old["name"]
            kept[key] = {} if renamed else _kept(old, change)
        elif isinstance(old, Mapping | list) and isinstance(change, Mapping | list):
            kept[key] = None  # a list for a mapping, or a list for a list, is another value
        elif change == MISSING:
            kept.pop(key, None)  # OmegaConf would leave what was given before
    return kept


def spelt(values: Mapping[str, Any], *, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Returns values in which a part given by its name alone is a mapping with that name."""
    made = dict(values)
    for key in (*parts, "evaluation"):
        value = made.get(key)
        # Within a strategy `none` is no part, and `${...}` may stand for a whole one.
        named = parts is PARTS or (value != "none" and "${" not in str(value))
        if key in parts and isinstance(value, str) and named:
            made[key] = {"name": value}
        elif is_mapping(value) and key in ("strategy", "evaluation", *_WITHIN):
            made[key] = spelt(value, parts=_WITHIN)
    return made
