"""A field's annotation as JSON Schema: what `gfcr.values.ranges` checks, said to editors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from gfcr.values.ranges import bounds

Schema: TypeAlias = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": ["string", "integer"]},  # a study called 2026
    bool: {"type": "boolean"},
    Path: {"type": "string"},
    NoneType: {"type": "null"},
}
_LIMITS: dict[type[Any], str] = {
    Ge: "minimum",
    Gt: "exclusiveMinimum",
    Le: "maximum",
    Lt: "exclusiveMaximum",
    MultipleOf: "multipleOf",
}


def of(hint: Any, *, instead: Mapping[Any, Schema]) -> Schema:
    """Returns the schema of an annotation.

    Args:
        hint: the annotation.
        instead: schemas of classes that values of a file are made into.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner = of(args[0], instead=instead)
        return {**inner, **dict(_limit(bound, of=inner) for bound in bounds(hint))}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, UnionType):
        return {"anyOf": [of(arg, instead=instead) for arg in args]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of(args[1], instead=instead)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        fixed = origin is tuple and args[1:] != (...,)
        items = [of(arg, instead=instead) for arg in args if arg is not ...]
        ends = {"prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", **(ends if fixed else {"items": items[0]})}
    return dict(_PLAIN.get(hint) or instead.get(hint) or {})


def _limit(bound: Any, *, of: Schema) -> tuple[str, Any]:
    kind = cast(Any, type(bound))
    if isinstance(bound, (MinLen, MaxLen)):
        end = "min" if isinstance(bound, MinLen) else "max"
        what = {"array": "Items", "object": "Properties"}.get(str(of.get("type")), "Length")
        (length,) = (getattr(bound, name) for name in kind.__slots__)
        return f"{end}{what}", length
    (limit,) = (getattr(bound, name) for name in kind.__slots__)
    return _LIMITS[kind], limit
