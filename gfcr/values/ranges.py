"""Ranges of fields, given by their annotations and checked wherever a field is set.

`length: Annotated[int, Interval(ge=1, le=64)]` is refused outside 1 to 64, from a file and from
Python alike. Whatever the annotation, numbers are finite, integers have 64 bits, text can be
encoded and holds no NUL.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Len, Lt, MaxLen, MinLen
from annotated_types import MultipleOf as Multiple
from pydantic import AfterValidator

from gfcr.errors import ConfigError, did_you_mean, shown
from gfcr.values.types import adapter, storable

Count: TypeAlias = Annotated[int, Interval(ge=1, le=1_000_000)]
"""A number of things that are held in memory or processed one by one."""
Natural: TypeAlias = Annotated[int, Interval(ge=0, le=1_000_000)]
Large: TypeAlias = Annotated[int, Interval(ge=1, le=10**15)]
"""A bound on what is spent or kept: no memory of that size is allocated for it."""
Seed: TypeAlias = Annotated[int, Interval(ge=0, lt=2**32)]
Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
SomeShare: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
Fraction: TypeAlias = Annotated[float, Interval(gt=0, lt=1)]
Heat: TypeAlias = Annotated[float, Interval(ge=0.01, le=10)]
"""A factor that a temperature is multiplied by."""
Temperature: TypeAlias = Annotated[float, Interval(ge=0, le=100)]
"""A sampling temperature: 0 is greedy; beyond 100 tokens are nearly equally likely."""
Clip: TypeAlias = Annotated[float, Interval(ge=0, le=1000)]
"""How far a ratio of probabilities may lie from 1 in the loss."""
Positive: TypeAlias = Annotated[float, Interval(gt=0, le=1e12)]
NonNegative: TypeAlias = Annotated[float, Interval(ge=0, le=1e12)]
DraftLength: TypeAlias = Annotated[int, Interval(ge=1, le=128)]
"""The number of tokens drafted for one verification."""
Finite: TypeAlias = Annotated[float, Interval(ge=-1e12, le=1e12)]
Text: TypeAlias = Annotated[str, Len(0, 10_000)]
"""Free text: templates, patterns, addresses."""
Word: TypeAlias = Annotated[str, Len(0, 200)]
"""The name of something, in gfcr or elsewhere."""
SomeWord: TypeAlias = Annotated[str, Len(1, 200)]
File: TypeAlias = Annotated[str, Len(0, 2_000)]
"""A path, a Hub id or an address; empty stands for none."""
Options: TypeAlias = Annotated[dict[str, Any], AfterValidator(storable)]
"""Values that somebody else reads, by name; what they may be is theirs to say."""


class Checked:
    """A dataclass whose fields are checked before it is made, from Python as from a file."""

    __slots__ = ()

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuses a value that its field's annotation does not allow."""
        if given and is_dataclass(cls):
            hints = hints_of(cls)
            for name, value in given.items():
                if name in hints:
                    conform(value, hints[name], key=f"{cls.__name__}.{name}")
        return super().__new__(cls)


def conform(value: Any, hint: Any, *, key: str) -> Any:
    """Returns the value converted to the type of its annotation.

    Raises:
        ConfigError: it has another type or is out of range; names the key and what is allowed.
    """
    try:
        return adapter(hint).validate_python(value)
    except (ValueError, OverflowError, RecursionError) as error:
        words = [word for word in get_args(hint) if isinstance(word, str)]
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        told = f"{key}={shown(value)} is not allowed: give {describe(hint)}.{near}"
        raise ConfigError(told) from error


def values_of(record: object) -> dict[str, Any]:
    """Returns a dataclass's init fields by name, each of the very type that a file's value has."""
    hints = hints_of(type(record))
    return {name: conform(getattr(record, name), hint, key=name) for name, hint in hints.items()}


@lru_cache(maxsize=1024)
def hints_of(schema: type) -> dict[str, Any]:
    """Returns a dataclass's init fields with their annotations, ranges included."""
    hints = get_type_hints(schema, include_extras=True)
    return {f.name: hints[f.name] for f in fields(schema) if f.init}


def bounds(hint: Any) -> Iterator[Any]:
    """Yields the constraints of an annotation, one by one."""
    for constraint in get_args(hint)[1:]:
        if isinstance(constraint, GroupedMetadata):
            yield from constraint
        else:
            yield constraint


def describe(hint: Any) -> str:
    """Describes in words the values that an annotation allows."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{describe(args[0])} {_limits(list(bounds(hint)))}".strip()
    if origin is Literal:
        return _either([repr(a) for a in args])
    if origin in (Union, UnionType):
        return _either([describe(a) for a in sorted(args, key=lambda a: a is not NoneType)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each {describe(args[0])}"
    words = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
    words |= {Path: "a path", NoneType: "null", Any: "any value"}
    return words.get(hint) or f"a {getattr(hint, '__name__', hint)}"


def _limits(constraints: Sequence[Any]) -> str:
    signs = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}
    least = next((c for c in constraints if isinstance(c, (Ge, Gt))), None)
    most = next((c for c in constraints if isinstance(c, (Le, Lt))), None)
    words = [f"{signs[type(c)]} {_limit(c)}" for c in (least, most) if c]
    if isinstance(least, Ge) and isinstance(most, Le):
        words = [f"from {_limit(least)} to {_limit(most)}"]
    words += [f"a multiple of {c.multiple_of}" for c in constraints if isinstance(c, Multiple)]
    stored = "with finite numbers, integers of 64 bits and text of at most 10,000 characters"
    words += [stored for c in constraints if isinstance(c, AfterValidator)]
    words += [f"at least {c.min_length} long" for c in constraints if isinstance(c, MinLen)]
    words += [f"at most {c.max_length} long" for c in constraints if isinstance(c, MaxLen)]
    return " and ".join(words)


def _limit(constraint: Any) -> str:
    (bound,) = (getattr(constraint, name) for name in constraint.__slots__)
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
