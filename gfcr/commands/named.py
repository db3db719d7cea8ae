"""Resolves names on the command line: parts of some kind, or strategies."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.code import loose
from gfcr.errors import ConfigError, did_you_mean, shown
from gfcr.part import Part

STRATEGY = "strategy"
KINDS = (STRATEGY, *registry.KINDS)
"""All kinds that have names."""
HELP = "a name that `gfcr list --all` gives, KIND/NAME such as filter/pods, or `file.py:NAME`"


@dataclass(frozen=True, kw_only=True)
class Named:
    """The part or strategy that a name stands for."""

    kind: str
    """The kind of part, or `strategy`."""
    name: str
    also: tuple[str, ...] = ()
    """Other parts and strategies of the same name, as `KIND/NAME`."""

    @property
    def is_part(self) -> bool:
        """Returns whether it is a part, not a strategy."""
        return self.kind != STRATEGY


def find(text: str, *, parts_first: bool = False) -> Named:
    """Returns the part or strategy of a name.

    Args:
        text: NAME, KIND/NAME, `package.module:NAME` or `path/to/file.py:NAME`.
        parts_first: whether a name that a strategy and a part share means the part.

    Raises:
        ConfigError: there is none, or the object is neither a part nor a strategy.
    """
    if ":" in text:
        return Named(kind=_kind_at(text), name=text)
    if text.endswith(".py"):
        raise ConfigError(f"{text} is a file: give {text}:NAME.{_held(text)}")
    kind, sign, name = text.partition("/")
    if sign and kind in KINDS:
        if name not in names(kind):
            raise _unknown(name, kind=kind, among=names(kind), listed=kind)
        return Named(kind=kind, name=name)
    found = [kind for kind in KINDS if text in names(kind)]
    if not found:
        every = {name for kind in KINDS for name in names(kind)}
        raise _unknown(text, kind="name", among=every, listed="--all")
    if parts_first:
        found.sort(key=lambda kind: kind == STRATEGY)
    also = tuple(f"{kind}/{text}" for kind in found[1:])
    return Named(kind=found[0], name=text, also=also)


def _unknown(text: str, *, kind: str, among: Iterable[str], listed: str) -> ConfigError:
    """Builds an error with the nearest names: there are more than anybody reads."""
    near = did_you_mean(text, sorted(among), most=5)
    return ConfigError(f"unknown {kind} {shown(text)}.{near} `gfcr list {listed}` names all.")


def names(kind: str) -> Iterable[str]:
    """Returns all names of a kind."""
    return strategies.names() if kind == STRATEGY else registry.names(kind)


def _kind_at(address: str) -> str:
    found: Any = registry.load_object(address)
    if kind := registry.kind_of(found):
        return kind
    if strategies.makes(found):
        return STRATEGY
    held = _held(address.rpartition(":")[0])
    raise ConfigError(
        f"{shown(address)} is neither a part nor a strategy: give a dataclass that inherits a "
        "class of gfcr.stages (or gfcr.tasks.base.Task and the like), or a function whose "
        f"annotation says `-> gfcr.strategy.Strategy`.{held} A reward function "
        "is named by the key `task.verifier` of an experiment."
    )


def _held(place: str) -> str:
    """Lists the parts and strategies of a file or module, as a hint."""
    module = loose.find(place)
    own = {k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    held = [name for name, value in own.items() if _is_either(value)]
    return f" It has: {', '.join(held)}." if held else " It has none."


def _is_either(value: Any) -> bool:
    is_part = inspect.isclass(value) and issubclass(value, Part) and not inspect.isabstract(value)
    return is_part or strategies.makes(value)
