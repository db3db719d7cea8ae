"""The state of parts as data: a JSON tree and one file of raw arrays. Reading it runs no code.

No module is imported and no constructor, `__setstate__` or `__del__` called: an object is made
empty and given its attributes, and only of classes of gfcr and of the packages that the parts in
this process come from. What JSON lacks is `{"$KIND": its contents, "of": what else remakes it}`;
an object that was written before is `{"$same": its place among all objects, by their ends}`.
"""

import json
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path, PurePath
from random import Random
from typing import Any, Final, TypeAlias, final

import numpy

from gfcr.errors import CheckpointError
from gfcr.part import Part

TREE: Final = "gfcr_state.json"
ARRAYS: Final = "gfcr_state.bin"
np: Final[Any] = numpy  # its types say too little of arrays of any kind
_FACTORIES: Final[Mapping[str, Any]] = {f.__name__: f for f in (list, dict, set, int, float, str)}
_PLAIN: Final[tuple[Any, ...]] = (tuple, set, frozenset, dict, OrderedDict, bytes, bytearray)
"""Types that are built from their items, pairs or bytes alone."""
_TIMES: Final[tuple[Any, ...]] = (datetime, date, time)
"""Types that columns of data hold, kept in ISO's form; a datetime is a date, too."""
_BUILT_IN: Final = (list, dict, set, frozenset, deque, bytes, bytearray, str, int, float)
Tree: TypeAlias = Any


def write(folder: Path, *, state: Mapping[str, Any]) -> None:
    """Writes `state` into `folder`.

    Raises:
        CheckpointError: a value cannot be written as data (an open file, a function); says where.
    """
    writer = _Writer()
    try:
        tree = writer.encode(dict(state), where="state")
    except RecursionError as error:
        raise CheckpointError("a part's memory holds itself, which is no data.") from error
    (folder / ARRAYS).write_bytes(bytes(writer.arrays))
    (folder / TREE).write_text(json.dumps(tree), encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """Reads the state that `write` wrote, into new objects.

    Raises:
        CheckpointError: the files hold no state, or name a class that does not exist (any more).
    """
    try:
        tree = json.loads((folder / TREE).read_text("utf-8"))
        return _decode(tree, arrays=(folder / ARRAYS).read_bytes(), objects=[])
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{folder / TREE} cannot be read ({error})") from error


@final
class _Writer:
    def __init__(self) -> None:
        self.arrays = bytearray()
        # The rollouts of a prompt share it, with all columns of its row.
        self._places: dict[int, int] = {}
        """The place of each object that was written, by its identity."""

    def encode(self, value: Any, *, where: str) -> Tree:
        kind: Any = value.__class__  # exact: a subclass may hold more
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return self._items(value, where=where)
        if kind is dict and all(type(k) is str and not k.startswith("$") for k in value):
            return {k: self.encode(v, where=f"{where}[{k!r}]") for k, v in value.items()}
        tag, held, of = self._told(value, kind=kind, where=where)
        return {f"${tag}": held, "of": of}

    def _told(self, value: Any, *, kind: Any, where: str) -> tuple[str, Tree, Tree]:
        factory = getattr(getattr(value, "default_factory", dict), "__name__", "")
        if kind in (tuple, set, frozenset, deque):
            return kind.__name__, self._items(value, where=where), getattr(value, "maxlen", None)
        if kind in (dict, OrderedDict, Counter, defaultdict) and factory in _FACTORIES:
            return kind.__name__, self._pairs(value, where=where), factory
        if kind in (bytes, bytearray):
            return kind.__name__, self._keep(value), None
        if issubclass(kind, numpy.ndarray | numpy.generic) and not value.dtype.hasobject:
            descr = np.lib.format.dtype_to_descr(value.dtype)
            tag = "scalar" if issubclass(kind, numpy.generic) else "array"
            return tag, self._keep(np.asarray(value).tobytes()), [descr, value.shape]
        if issubclass(kind, PurePath):
            return "path", str(value), None
        timed = next((each for each in _TIMES if isinstance(value, each)), None)
        if timed is not None and value == value:  # pandas' Timestamp is one, and its NaT is none
            return timed.__name__, value.isoformat(), None
        if kind is timedelta:
            return "timedelta", [value.days, value.seconds, value.microseconds], None
        if kind is Decimal:
            return "decimal", self._items(value.as_tuple(), where=where), None
        if kind is Random:
            return "random", self.encode(value.getstate(), where=where), None
        if kind is np.random.Generator:
            return "generator", self.encode(value.bit_generator.state, where=where), None
        return self._object(value, kind=kind, where=where)

    def _object(self, value: Any, *, kind: Any, where: str) -> tuple[str, Tree, Tree]:
        if (place := self._places.get(id(value))) is not None:
            return "same", place, None
        name = f"{kind.__module__}:{kind.__qualname__}"
        if not _is_allowed(kind) or _class_of(name) is not kind:
            raise CheckpointError(
                f"{where} is a {kind.__module__}.{kind.__qualname__}, which cannot be kept in a "
                "checkpoint. A part's memory holds numbers, text, bytes, arrays, containers of "
                "them, and objects of classes beside the part. Hold those, or give the part its "
                "own state_dict and load_state_dict."
            )
        if issubclass(kind, Flag):  # a combination has no name of its own
            return "flag", value.value, name
        if issubclass(kind, Enum):
            return "enum", value.name, name
        if issubclass(kind, tuple):
            return "named", self._items(value, where=where), name
        attributes = _attributes(value).items()
        held = {k: self.encode(v, where=f"{where}.{k}") for k, v in attributes}
        self._places[id(value)] = len(self._places)
        return "object", held, name

    def _items(self, values: Any, *, where: str) -> list[Tree]:
        return [self.encode(v, where=f"{where}[{n}]") for n, v in enumerate(values)]

    def _pairs(self, values: Mapping[Any, Any], *, where: str) -> list[Tree]:
        return [
            [self.encode(k, where=f"{where} key"), self.encode(v, where=f"{where}[{k!r}]")]
            for k, v in values.items()
        ]

    def _keep(self, held: bytes | bytearray) -> list[int]:
        self.arrays += held
        return [len(self.arrays) - len(held), len(held)]


def _decode(tree: Tree, *, arrays: bytes, objects: list[Any]) -> Any:
    if tree.__class__ is list:
        return [_decode(each, arrays=arrays, objects=objects) for each in tree]
    if tree.__class__ is not dict:
        return tree
    tag = next((key for key in tree if key.startswith("$")), None)
    if tag is None:
        return {k: _decode(v, arrays=arrays, objects=objects) for k, v in tree.items()}
    held = _decode(tree[tag], arrays=arrays, objects=objects)
    if tag == "$same":
        return objects[held]
    if tag in _KEPT:
        at, length = held
        held = arrays[at : at + length]
        if len(held) != length:
            raise ValueError(f"{ARRAYS} is too short")
    made = _MAKERS[tag](held, tree["of"])
    if tag == "$object":
        objects.append(made)
    return made


def _array(held: bytes, of: list[Any]) -> Any:
    dtype = np.lib.format.descr_to_dtype(_descr(of[0]))
    # It is copied, as an array over bytes cannot be written to, and parts go on with theirs.
    return np.frombuffer(held, dtype).reshape(of[1]).copy()  # refuses objects


def _random(held: Any, of: None) -> Random:
    made = Random()
    made.setstate(held)
    return made


def _generator(held: Any, of: None) -> Any:
    made = getattr(np.random, held["bit_generator"])()
    made.state = held
    return np.random.Generator(made)


def _object(held: dict[str, Any], of: str) -> Any:
    kind = _class_of(of)
    if _is_record(kind):
        wanted = {f.name for f in fields(kind)}
        # An object made without its constructor and with a field too few would fail much later.
        if wanted != held.keys():
            names = ", ".join(sorted(wanted ^ held.keys()))
            raise ValueError(f"{of} has other fields now: {names}")
    made = object.__new__(kind)
    for key, value in held.items():
        object.__setattr__(made, key, value)  # also of frozen ones
    return made


def _attributes(value: Any) -> dict[str, Any]:
    if _is_record(value.__class__):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}


def _is_allowed(kind: Any) -> bool:
    """Returns whether a class is plain data of gfcr or of the package of a part in this process."""
    plain = _is_record(kind) or (
        # What a class does to be copied is code of its own: such an object is more than it holds.
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__getstate__ is object.__getstate__
        and not hasattr(kind, "__setstate__")
    )
    data = plain or issubclass(kind, Enum) or hasattr(kind, "_fields")
    # A container's subclass holds more than attributes.
    bare = not any(base in kind.__mro__ for base in _BUILT_IN) or issubclass(kind, Enum)
    return data and bare and not hasattr(kind, "__del__") and _package(kind) in _packages()


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)


def _packages() -> set[str]:
    parts: list[type] = [Part]
    for part in parts:  # grows: the subclasses' subclasses follow
        parts += part.__subclasses__()
    return {_package(part) for part in parts}


def _package(kind: Any) -> str:
    return kind.__module__.partition(".")[0]


def _class_of(name: str) -> Any:
    module, _, path = name.partition(":")
    # It has to be loaded already, as an import by a name in a file would run code.
    found: Any = sys.modules.get(module)
    for word in path.split("."):
        found = getattr(found, word, None)
    if not isinstance(found, type) or not _is_allowed(found):
        raise ValueError(f"there is no class {name} among gfcr's or its parts'")
    return found


def _descr(held: Any) -> Any:
    """Restores the tuples of a structured dtype's description, which JSON turned into lists."""
    if isinstance(held, str):
        return held
    return [(name, _descr(kind), *map(tuple, shape)) for name, kind, *shape in held]


_KEPT: Final = ("$bytes", "$bytearray", "$array", "$scalar")
_MAKERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **{f"${kind.__name__}": lambda held, of, kind=kind: kind(held) for kind in _PLAIN},
    **{f"${k.__name__}": lambda held, of, kind=k: kind.fromisoformat(held) for k in _TIMES},
    "$timedelta": lambda held, of: timedelta(*held),
    "$decimal": lambda held, of: Decimal(tuple(held)),
    "$deque": deque,
    "$Counter": lambda held, of: Counter(dict(held)),
    "$defaultdict": lambda held, of: defaultdict(_FACTORIES[of], held),
    "$array": _array,
    "$scalar": lambda held, of: _array(held, of)[()],
    "$path": lambda held, of: Path(held),
    "$random": _random,
    "$generator": _generator,
    "$enum": lambda held, of: _class_of(of)[held],
    "$flag": lambda held, of: _class_of(of)(held),
    "$named": lambda held, of: _class_of(of)._make(held),
    "$object": _object,
}
