"""JSON read strictly, and the part of JSON Schema that says what an answer looks like."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias

from gfcr.errors import ConfigError, did_you_mean, shown

Check: TypeAlias = Callable[[Any, Any], bool]

_SAYS_NOTHING: Final = ("$schema", "title", "description", "default", "examples")


def read(text: str) -> Any:
    """The value that a text is.

    Raises:
        ValueError: it is no JSON; NaN and Infinity are none.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Returns whether a value is what a schema says."""
    if not _has_no_other(value, schema):
        return False
    return all(_KEYWORDS[word][0](value, said) for word, said in schema.items() if _counts(word))


def check_schema(schema: Any, *, key: str) -> None:
    """Refuses a schema that says what is not read here, or says it wrongly.

    Raises:
        ConfigError: naming the key, and the keywords there are.
    """
    if not _is(schema, Mapping):
        raise ConfigError(f"{key}={shown(schema)} is no schema: give a mapping of keywords.")
    for word, said in schema.items():
        if word in _SAYS_NOTHING:
            continue
        if word not in _KEYWORDS:
            near, known = did_you_mean(str(word), _KEYWORDS), ", ".join(_KEYWORDS)
            raise ConfigError(f"{key}: unknown keyword {word!r}.{near} Allowed: {known}.")
        if not _KEYWORDS[word][1](said):
            raise ConfigError(f"{key}.{word}={shown(said)} is not what JSON Schema has there.")
        for where, inner in _within(word, said):
            check_schema(inner, key=f"{key}.{word}{where}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _counts(word: str) -> bool:
    return word not in (*_SAYS_NOTHING, "additionalProperties")


def _is(value: Any, *kinds: type) -> bool:
    """Returns whether a value has a type as JSON has types: true is no number."""
    return isinstance(value, kinds) and (type(value) is not bool or bool in kinds)


def _same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal in JSON: 1 is 1.0, and true is not 1."""
    if _is(one, list) and _is(other, list, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if _is(one, dict) and _is(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    return _is(one, bool) == _is(other, bool) and bool(one == other)


def _within(word: str, said: Any) -> Iterator[tuple[str, Any]]:
    """The schemas in what a keyword says, and where."""
    if word == "properties":
        yield from ((f".{name}", inner) for name, inner in said.items())
    elif word == "anyOf":
        yield from ((f"[{i}]", inner) for i, inner in enumerate(said))
    elif word == "items" or (word == "additionalProperties" and not _is(said, bool)):
        yield "", said


def _has_no_other(value: Any, schema: Mapping[str, Any]) -> bool:
    said = schema.get("additionalProperties", True)
    if said is True or not _is(value, dict):
        return True
    others = [v for k, v in value.items() if k not in schema.get("properties", {})]
    return all(said is not False and fits(other, said) for other in others)


def _of(kind: type, holds: Check) -> Check:
    """A check of values of a kind; others pass."""
    return lambda value, said: (
        not _is(value, *((int, float) if kind is float else (kind,))) or (holds(value, said))
    )


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda v: _is(v, dict),
    "array": lambda v: _is(v, list),
    "string": lambda v: _is(v, str),
    "boolean": lambda v: _is(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: _is(v, int, float),
    "integer": lambda v: _is(v, int) or (_is(v, float) and v.is_integer()),
}


def _types(said: Any) -> list[Any]:
    return list(said) if _is(said, list, tuple) else [said]


def _is_pattern(said: Any) -> bool:
    try:
        re.compile(said)
    except (re.error, TypeError):
        return False
    return True


def _are_words(said: Any) -> bool:
    return _is(said, list, tuple) and all(_is(word, str) for word in said)


def _is_size(said: Any) -> bool:
    return _is(said, int) and said >= 0


def _is_number(said: Any) -> bool:
    return _is(said, int, float)


def _is_list(said: Any) -> bool:
    return _is(said, list, tuple) and len(said) > 0


def _anything(said: Any) -> bool:
    return True


_KEYWORDS: Final[Mapping[str, tuple[Check, Callable[[Any], bool]]]] = {
    "type": (
        lambda v, said: any(_TYPES[name](v) for name in _types(said)),
        lambda said: all(_is(name, str) and name in _TYPES for name in _types(said)),
    ),
    "enum": (lambda v, said: any(_same(v, one) for one in said), _is_list),
    "const": (_same, _anything),
    "anyOf": (lambda v, said: any(fits(v, one) for one in said), _is_list),
    "required": (_of(dict, lambda v, said: all(name in v for name in said)), _are_words),
    "properties": (
        _of(dict, lambda v, said: all(fits(v[k], s) for k, s in said.items() if k in v)),
        lambda said: _is(said, Mapping),
    ),
    "additionalProperties": (lambda v, said: True, _anything),
    "items": (_of(list, lambda v, said: all(fits(one, said) for one in v)), _anything),
    "minItems": (_of(list, lambda v, said: len(v) >= said), _is_size),
    "maxItems": (_of(list, lambda v, said: len(v) <= said), _is_size),
    "minLength": (_of(str, lambda v, said: len(v) >= said), _is_size),
    "maxLength": (_of(str, lambda v, said: len(v) <= said), _is_size),
    "pattern": (_of(str, lambda v, said: re.search(said, v) is not None), _is_pattern),
    "minimum": (_of(float, lambda v, said: v >= said), _is_number),
    "maximum": (_of(float, lambda v, said: v <= said), _is_number),
}
"""Keyword -> whether a value is what it says, and whether that can be said."""
