"""What a field may hold, said by its annotation and checked wherever the field is set.

`length: Annotated[int, Interval(ge=1, le=64)]` is refused outside 1 to 64, from a file and from
Python alike. Whatever the annotation, numbers are finite, integers have 64 bits, text can be
encoded and holds no NUL.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Len, Lt, MaxLen, MinLen
from annotated_types import MultipleOf as Multiple

from gfcr.errors import ConfigError, did_you_mean, shown

Count: TypeAlias = Annotated[int, Interval(ge=1, le=1_000_000)]
"""How many of something that is held in memory or gone through one by one."""
Natural: TypeAlias = Annotated[int, Interval(ge=0, le=1_000_000)]
Large: TypeAlias = Annotated[int, Interval(ge=1, le=10**15)]
"""A bound on what is spent or kept: nothing is made that large because of it."""
Seed: TypeAlias = Annotated[int, Interval(ge=0, lt=2**32)]
Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
SomeShare: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
Fraction: TypeAlias = Annotated[float, Interval(gt=0, lt=1)]
Heat: TypeAlias = Annotated[float, Interval(ge=0.01, le=10)]
"""What a temperature is multiplied by."""
Positive: TypeAlias = Annotated[float, Interval(gt=0, le=1e12)]
NonNegative: TypeAlias = Annotated[float, Interval(ge=0, le=1e12)]
DraftLength: TypeAlias = Annotated[int, Interval(ge=1, le=128)]
"""Tokens drafted for one verification."""
Finite: TypeAlias = Annotated[float, Interval(ge=-1e12, le=1e12)]
Text: TypeAlias = Annotated[str, Len(0, 10_000)]
"""Free text: templates, patterns, addresses."""
Word: TypeAlias = Annotated[str, Len(0, 200)]
"""Names of things, ours and others'."""
File: TypeAlias = Annotated[str, Len(0, 2_000)]
"""A path, a Hub id or an address; empty is none."""

_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")

Reader: TypeAlias = Callable[[Any], Any]
"""Gives a value as its type, or raises ValueError."""


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
    """Returns the value as the type of its annotation.

    Raises:
        ConfigError: it has another type or is out of range, naming the key and what is allowed.
    """
    try:
        return reader(hint)(value)
    except (ValueError, OverflowError, RecursionError) as error:
        near = did_you_mean(str(value), get_args(hint)) if get_origin(hint) is Literal else ""
        told = f"{key}={shown(value)} is not allowed: give {describe(hint)}.{near}"
        raise ConfigError(told) from error


@lru_cache(maxsize=1024)
def hints_of(schema: type) -> dict[str, Any]:
    """A dataclass's init fields and their annotations, ranges included."""
    hints = get_type_hints(schema, include_extras=True)
    return {f.name: hints[f.name] for f in fields(schema) if f.init}


@lru_cache(maxsize=4096)
def reader(hint: Any) -> Reader:
    """The function that checks and converts values of an annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _within(reader(args[0]), list(bounds(hint)))
    if origin is Literal:
        return _one_of(args)
    if origin in (Union, UnionType):
        return _any_of([reader(arg) for arg in sorted(args, key=lambda a: a is not NoneType)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*(reader(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        same = origin is not tuple or args[1:] == (...,)
        make = tuple if origin is tuple else list
        return _sequence([reader(a) for a in args if a is not ...], same=same, make=make)
    plain = {int: _integer, float: _number, str: _text, bool: _bool, Path: _path, Any: _anything}
    return plain.get(hint) or _instance(origin or hint)


def bounds(hint: Any) -> Iterator[Any]:
    """The constraints of an annotation, one by one."""
    for constraint in get_args(hint)[1:]:
        if isinstance(constraint, GroupedMetadata):
            yield from constraint
        else:
            yield constraint


def is_text(value: str) -> bool:
    """Whether files and other libraries can hold it: no NUL, no bytes that are no UTF-8."""
    return len(value) <= 10_000 and not _NO_TEXT.search(value)


def describe(hint: Any) -> str:
    """What an annotation allows, as people write it."""
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


# ---------------------------------------------------------------- readers


def _within(inner: Reader, constraints: Sequence[Any]) -> Reader:
    def read(value: Any) -> Any:
        found = inner(value)
        if not all(_holds(c, found) for c in constraints):
            raise ValueError
        return found

    return read


def _holds(constraint: Any, value: Any) -> bool:
    match constraint:
        case Ge(ge):
            return value >= ge
        case Gt(gt):
            return value > gt
        case Le(le):
            return value <= le
        case Lt(lt):
            return value < lt
        case Multiple(of):
            return value % of == 0
        case MinLen(least):
            return len(value) >= least
        case MaxLen(most):
            return len(value) <= most
        case _:
            raise TypeError(f"ranges know no {constraint!r}")


def _one_of(allowed: Sequence[Any]) -> Reader:
    def read(value: Any) -> Any:
        if not any(type(value) is type(a) and value == a for a in allowed):
            raise ValueError
        return value

    return read


def _any_of(readers: Sequence[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for one in readers:
            try:
                return one(value)
            except ValueError:
                continue
        raise ValueError

    return read


def _mapping(key: Reader, item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError
        return {key(k): item(v) for k, v in cast("Mapping[Any, Any]", value).items()}

    return read


def _sequence(items: Sequence[Reader], *, same: bool, make: Callable[[Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise ValueError
        values = cast("Sequence[Any]", value)
        readers = [items[0]] * len(values) if same else items
        return make(r(v) for r, v in zip(readers, values, strict=True))

    return read


def _instance(kind: Any) -> Reader:
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return _anything

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError
        return value

    return read


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or abs(int(value)) >= 2**63:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    text = str(value) if type(value) is int else value  # a study called 2026
    if not isinstance(text, str) or not is_text(text):
        raise ValueError
    return text


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _path(value: Any) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _anything(value: Any) -> Any:
    return value


# ---------------------------------------------------------------- words


def _limits(constraints: Sequence[Any]) -> str:
    signs = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}
    least = next((c for c in constraints if isinstance(c, (Ge, Gt))), None)
    most = next((c for c in constraints if isinstance(c, (Le, Lt))), None)
    words = [f"{signs[type(c)]} {_limit(c)}" for c in (least, most) if c]
    if isinstance(least, Ge) and isinstance(most, Le):
        words = [f"from {_limit(least)} to {_limit(most)}"]
    words += [f"a multiple of {c.multiple_of}" for c in constraints if isinstance(c, Multiple)]
    words += [f"at least {c.min_length} long" for c in constraints if isinstance(c, MinLen)]
    words += [f"at most {c.max_length} long" for c in constraints if isinstance(c, MaxLen)]
    return " and ".join(words)


def _limit(constraint: Any) -> str:
    (bound,) = (getattr(constraint, name) for name in constraint.__slots__)
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
