"""Interpolation in experiment files: `${sampling.max_tokens}`, `${.other}`, `${oc.env:NAME}`.

OmegaConf resolves it when an experiment is made from its values. Records hold resolved values, so
that an interpolation which would write a secret there is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, cast

from gfcr.errors import ConfigError, did_you_mean, shown
from gfcr.values.merging import MISSING, naming, tree_of
from gfcr.values.plain import is_mapping, scalars

if TYPE_CHECKING:
    from omegaconf import DictConfig

GROUP: Final = "gfcr.resolvers"
"""Entry-point group of functions that `${name:argument,...}` may call."""

_BUILT_IN: Final = tuple(
    f"oc.{name}" for name in ("env", "select", "decode", "create", "dict.keys", "dict.values")
)
_CALLED: Final = re.compile(r"(?<!\\)\$\{\s*([\w.]+)\s*:")
_FROM_ENVIRONMENT: Final = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?(\w+)")
_OPENING: Final = re.compile(r"(\\*)\$\{")
_SECRET: Final = re.compile(
    r"(KEYS?|TOKEN|(?<!MAX_|NEW_|NUM_)TOKENS)(_|$)|PASSWORD|PASSWD|SECRET|CREDENTIAL", re.IGNORECASE
)
"""Matches names of secrets; `MAX_TOKENS` is a number of tokens."""


class InterpolationError(ConfigError):
    """A value that cannot be resolved: `text`, at the dotted `key`."""

    def __init__(self, message: str, *, key: str, text: str) -> None:
        super().__init__(message)
        self.key, self.text = key, text


def is_open(value: object) -> bool:
    """Tells whether a value is not known before it is resolved."""
    return isinstance(value, str) and ("${" in value or value == MISSING)


def resolved(
    values: Mapping[str, Any],
    *,
    where: str,
    over: Mapping[str, Any] | None = None,
    only: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Returns values with every interpolation replaced by its result.

    Args:
        values: values of a whole experiment or study, to which keys are relative.
        where: the file's name, for messages.
        over: default values of keys that are not given.
        only: the keys to resolve; the others stay as they are.

    Raises:
        InterpolationError: an unknown key or variable, a cycle, a resolver that is not
            allowed or fails, a secret, or a value that must be given.
    """
    wanted = {key: values[key] for key in (values if only is None else only) if key in values}
    found = {key: text for key, text in scalars(wanted) if is_open(text)}
    if not found:
        return dict(values)
    for key, text in found.items():
        if text == MISSING:
            raise _missing(key, where=where)
        _allow(text, where=f"{where}: {key}", key=key)
    with naming(where, values=values):
        tree = tree_of(_filled(values, over=over or {}))
    made: dict[str, Any] = dict(values)
    for key, given in wanted.items():
        if any(is_open(text) for _, text in scalars(given)):
            made[key] = _given(given, _value(tree, key, found=found, where=where))
    return made


def _filled(values: Mapping[str, Any], *, over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values, with defaults for keys that are not given."""
    filled = {**over, **values}
    for key, value in values.items():
        if is_mapping(value) and is_mapping(usual := over.get(key)):
            filled[key] = _filled(value, over=usual)
    return filled


def _given(given: Any, found: Any) -> Any:
    """Returns those of the resolved values that were given, without the defaults."""
    if is_mapping(given):
        return {key: _given(inner, found[key]) for key, inner in given.items()}
    return found


def _value(tree: "DictConfig", key: str, *, found: Mapping[str, str], where: str) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

    try:
        value: Any = tree[key]
        if not OmegaConf.is_config(value):
            return value
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        place = str(error.full_key or key)
        text = found.get(place)
        if text is None:  # what is referred to must be given itself
            raise _missing(place, where=where) from error
        near = ""
        if isinstance(error, InterpolationKeyError):
            named = text.partition("${")[2].partition("}")[0]
            there = OmegaConf.to_container(tree, resolve=False)
            near = did_you_mean(named, [name for name, _ in scalars(there)])
        why = str(error).splitlines()[0]
        raise InterpolationError(
            f"{where}: {place}={shown(text)} is not allowed: {why}. Give a value, or "
            f"${{KEY}} of one that is given.{near}",
            key=place,
            text=text,
        ) from error


def _missing(key: str, *, where: str) -> InterpolationError:
    return InterpolationError(
        f"{where}: {key} must be given: it is `{MISSING}`. Give {key}=VALUE.",
        key=key,
        text=MISSING,
    )


def literal(value: Any) -> Any:
    """Returns values in which texts are not interpolated: `${` in them is escaped."""
    if isinstance(value, str):
        return _OPENING.sub(lambda found: f"{found[1] * 2}\\${{", value)
    if is_mapping(value):
        return {key: literal(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [literal(inner) for inner in cast("Sequence[Any]", value)]
    return value


def _allow(text: str, *, where: str, key: str) -> None:
    allowed = {*_BUILT_IN, *_own()}
    for name in _CALLED.findall(text):
        if name not in allowed:
            raise InterpolationError(
                f"{where}={shown(text)} is not allowed: there is no resolver {name!r}. Allowed: "
                f"{', '.join(sorted(allowed))}; own ones by entry points of {GROUP}."
                f"{did_you_mean(name, allowed)}",
                key=key,
                text=text,
            )
    for name in _FROM_ENVIRONMENT.findall(text):
        if _SECRET.search(name):
            raise InterpolationError(
                f"{where}={shown(text)} is not allowed: by its name {name} is a secret, and values "
                "are written to records. Whoever needs it reads the variable itself.",
                key=key,
                text=text,
            )


@lru_cache(maxsize=1)
def _own() -> tuple[str, ...]:
    """Registers the resolvers of installed distributions; returns their names."""
    from omegaconf import OmegaConf

    points = entry_points(group=GROUP)
    for point in points:
        OmegaConf.register_resolver(point.name, point.load(), replace=True)
    return tuple(point.name for point in points)
