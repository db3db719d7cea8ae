"""Overrides of the command line, as in Hydra: `key=value`, `+key=value` and `~key`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gfcr.errors import ConfigError, shown, unknown_name
from gfcr.values import reading
from gfcr.values.merging import PARTS, combine, merge, spelt, tree_of
from gfcr.values.plain import at, leaves

if TYPE_CHECKING:
    from omegaconf import DictConfig


class Override(NamedTuple):
    """One override of the command line: `key=value`, `+key=value` or `~key`."""

    key: str
    value: Any
    removes: bool = False

    @property
    def change(self) -> dict[str, Any]:
        """The change as nested values, as a file would give it."""
        *path, last = self.key.split(".")
        change: dict[str, Any] = {last: self.value}
        for key in reversed(path):
            change = {key: change}
        return change


def parse_override(text: str) -> Override:
    """Reads one override.

    Raises:
        ConfigError: it is no override, or its value is no YAML.
    """
    dotted, sign, value = text.removeprefix("+").partition("=")
    removes = text.startswith("~")
    if removes:
        dotted, sign = dotted[1:], "="
    depth = len(path := dotted.split("."))
    if not sign or not all(path) or depth > reading.MOST_DEPTH:
        raise ConfigError(
            f"override {shown(text)} is not allowed: give KEY=VALUE, e.g. trainer.max_steps=3, or "
            "~KEY, which takes the key out."
        )
    made = Override(dotted, reading.parse(value, where=f"override {shown(dotted)}"), removes)
    if reading.has_comment(value):
        raise ConfigError(
            f"override {shown(text)} is not allowed: behind # is a comment in YAML, which would be "
            f"lost. Give the value in quotes of its own, as '{dotted}=\"...\"'."
        )
    return made


def apply_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Returns values with overrides applied: keys removed, then values set, then list items.

    Raises:
        ConfigError: one is not allowed, or names a list item, or a key to remove, that does
            not exist.
    """
    given = [parse_override(text) for text in overrides]
    found = dict(values)
    for override in (o for o in given if o.removes):
        found = _edited(found, override)
    changes: dict[str, Any] = {}
    for override in (o for o in given if not o.removes and "[" not in o.key):
        changes = combine(changes, override.change)
    found = merge(found, changes) if changes else found
    for override in (o for o in given if not o.removes and "[" in o.key):
        found = _edited(found, override)
    return found


def dropped(values: Mapping[str, Any], *, now: Mapping[str, Any]) -> list[str]:
    """Returns the keys of parts in a file's values that are replaced by other parts now."""
    before, after = spelt(values), spelt(now)
    others = [k for k in PARTS if at(before, (k, "name")) != at(after, (k, "name"))]
    left = dict(leaves(after))
    lost = [key for key, _ in leaves(before) if key[0] in others and key not in left]
    return [".".join(key) for key in lost if key[1:] not in ((), ("name",))]


def said(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns the values that overrides set; one list item counts as the whole list."""
    found: dict[str, Any] = {}
    for override in map(parse_override, overrides):
        if not override.removes:
            found = combine(found, override._replace(key=override.key.partition("[")[0]).change)
    return found


def _edited(values: Mapping[str, Any], override: Override) -> dict[str, Any]:
    """Returns values with one list item set, or one key removed."""
    from omegaconf import OmegaConf

    tree = tree_of(values)
    if override.removes:
        _remove(tree, override, values=values)
    else:
        _set(tree, override)
    return cast("dict[str, Any]", OmegaConf.to_container(tree, resolve=False))


def _remove(tree: "DictConfig", override: Override, *, values: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    key, value = override.key, override.value
    above, _, last = key.rpartition(".")
    inside: Any = OmegaConf.select(tree, above) if above else tree
    if not OmegaConf.is_dict(inside) or last not in inside:
        held = [".".join(path) for path, _ in leaves(values)]
        raise unknown_name(key, kind="key", allowed=held, where=f"~{key}")
    found = at(values, key.split("."))
    if value not in (None, found, at(found, ("name",))):
        raise ConfigError(
            f"override ~{key}={shown(value)} is not allowed: {key} is {shown(found)}. Give ~{key}."
        )
    del inside[last]


def _set(tree: "DictConfig", override: Override) -> None:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        if not OmegaConf.is_list(OmegaConf.select(tree, override.key.partition("[")[0])):
            raise TypeError("there is no list")
        OmegaConf.update(tree, override.key, override.value)
    except (OmegaConfBaseException, IndexError, TypeError, ValueError) as error:
        raise ConfigError(
            f"override {override.key}={shown(override.value)} is not allowed: "
            f"{str(error).splitlines()[0]}. Give a place that the list has."
        ) from error
