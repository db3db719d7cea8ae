"""Encodes values as lines of JSON, and decodes them to plain built-in values only."""

import json
from collections.abc import Callable
from typing import Any


class UnsendableError(TypeError):
    """Raised for a value that is none of Python's plain ones."""


def dumps(message: Any) -> bytes:
    """Encodes a message as JSON, without the newline."""
    return json.dumps(message, separators=(",", ":")).encode()


def pack(value: Any, *, keep: Callable[[Any], int] | None = None) -> Any:
    """Encodes a plain value for JSON; another one as the number that `keep` gives for it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):  # of any size
        return ["int", int.__format__(value, "x")]
    if isinstance(value, float):
        return ["float", float.hex(value)]
    if isinstance(value, complex):
        return ["complex", float.hex(value.real), float.hex(value.imag)]
    if isinstance(value, bytes | bytearray):
        return [type(value).__name__, value.hex()]
    if isinstance(value, range):
        return ["range", *(pack(n) for n in (value.start, value.stop, value.step))]
    if isinstance(value, dict):
        plain: Any = dict
        pairs = plain.items(value)
        return ["dict", [[pack(k, keep=keep), pack(v, keep=keep)] for k, v in pairs]]
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset)
    for kind in kinds:
        if isinstance(value, kind):  # as the plain one, whatever it makes of itself
            return [kind.__name__, [pack(v, keep=keep) for v in kind.__iter__(value)]]
    if keep is None:
        raise UnsendableError(f"a {type(value).__name__} is no plain value")
    return ["held", keep(value)]


def unpack(data: Any, *, held: Callable[[int], Any] | None = None) -> Any:
    """Decodes a value; raises ValueError or TypeError for data that `pack` never makes."""
    if data is None or isinstance(data, bool | str):
        return data
    if not isinstance(data, list):
        raise TypeError("no value")
    rest: list[Any] = [*data]  # pyright: ignore[reportUnknownArgumentType] # what JSON holds
    kind: Any = rest.pop(0) if rest else None
    match kind:
        case "int":
            return int(rest[0], 16)
        case "float":
            return float.fromhex(rest[0])
        case "complex":
            return complex(*map(float.fromhex, rest))
        case "bytes":
            return bytes.fromhex(rest[0])
        case "bytearray":
            return bytearray.fromhex(rest[0])
        case "range":
            return range(*(unpack(n) for n in rest))
        case "dict":
            return {unpack(k, held=held): unpack(v, held=held) for k, v in rest[0]}
        case "list" | "tuple" | "set" | "frozenset":
            make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return make(unpack(v, held=held) for v in rest[0])
        case "held" if held:
            return held(rest[0])
        case _:
            raise ValueError("no value")
