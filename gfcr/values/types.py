"""Checks values against annotations by pydantic: strict, finite, the same for files and Python.

pydantic reads the ranges (`annotated_types`) itself. Added rules: numbers of numpy are numbers, an
integer has 64 bits, text can be stored, a list may stand for a tuple but nothing for a set, and an
object must be of the annotated class.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from numbers import Integral, Real
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, StrictBool, TypeAdapter, WithJsonSchema

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema."""

_HIDDEN: Final = {"$ref": "$hidden-ref"}
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")


@lru_cache(maxsize=4096)
def adapter(hint: Any) -> TypeAdapter[Any]:
    """Returns what checks and converts values of an annotation."""
    return TypeAdapter(_strict(hint, instead={}))


def schema(hint: Any, *, instead: Mapping[Any, Schema]) -> Schema:
    """Returns the JSON Schema of an annotation.

    Args:
        hint: the annotation.
        instead: the schemas of classes whose objects are made from a file's values.
    """
    # pydantic refuses references to what it has not made itself, so they are hidden from it.
    hidden = {kind: {_HIDDEN.get(k, k): v for k, v in of.items()} for kind, of in instead.items()}
    made = json.dumps(TypeAdapter(_strict(hint, instead=hidden)).json_schema())
    return json.loads(made.replace(_HIDDEN["$ref"], "$ref"))


def is_text(value: str) -> bool:
    """Tells whether files and other libraries can hold a text: no NUL, no lone surrogates."""
    return len(value) <= 10_000 and not _NO_TEXT.search(value)


def storable(value: object) -> object:
    """Returns a value of any kind whose numbers and texts are all such as fields may have.

    Raises:
        ValueError: one is not.
    """
    whole = value
    if isinstance(value, Mapping):
        for pair in cast(Mapping[object, object], value).items():
            storable(pair)
    elif isinstance(value, list | tuple):
        for each in cast(Sequence[object], value):
            storable(each)
    elif isinstance(value, str):
        _text(value)
    elif isinstance(value, Integral):
        _integer(int(value))
    elif isinstance(value, Real):
        _number(value)
    return whole


def _strict(hint: Any, *, instead: Mapping[Any, Schema]) -> Any:
    origin: Any = get_origin(hint)
    args = get_args(hint)
    if origin is Annotated:
        inner = _strict(args[0], instead=instead)
        # What converts runs before the ranges, which then are the type's own in its schema.
        base, *own = get_args(inner) if get_origin(inner) is Annotated else (inner,)
        return Annotated[(base, *args[1:], *own)]
    if origin is Literal or hint in (Any, NoneType, ...):
        return hint
    container = isinstance(origin, type) and issubclass(origin, (Mapping, Sequence))
    if origin not in (Union, UnionType) and not container:
        return _SCALARS.get(hint) or _instance(origin or hint, schema=instead.get(hint, {}))
    within = tuple(_strict(arg, instead=instead) for arg in args)
    if not container:
        return reduce(lambda one, other: one | other, within)
    if issubclass(cast(type, origin), Mapping):
        return GenericAlias(dict, within)
    made = GenericAlias(tuple if origin is tuple else list, within)
    return Annotated[made, BeforeValidator(_listed)]


def _instance(kind: Any, *, schema: Schema) -> Any:
    """Returns the check of an object that is made already: its class, or nothing for a protocol."""
    checked = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)

    def check(value: Any) -> Any:
        if checked and not isinstance(value, kind):
            raise ValueError
        return value

    return Annotated[Any, AfterValidator(check), WithJsonSchema(schema)]


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return cast(object, value)
    raise ValueError


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


_SCALARS: Final[dict[Any, Any]] = {
    int: Annotated[int, BeforeValidator(_integer)],
    float: Annotated[float, BeforeValidator(_number)],
    str: Annotated[str, BeforeValidator(_text, json_schema_input_type=str | int)],
    bool: StrictBool,
    Path: Path,
}
