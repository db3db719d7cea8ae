"""The state of parts as data: a JSON tree and one file of raw arrays. Reading it runs no code.

No module is imported and no constructor, `__setstate__` or `__del__` called: an object is made
empty and given its attributes, and only of classes of gfcr and of the packages that the parts in
this process come from. What is no JSON stands in an object with one key that begins with `$`.
"""

import dataclasses
import json
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path, PurePath
from random import Random
from typing import Any, Final, TypeAlias, final

import numpy

from gfcr.errors import CheckpointError
from gfcr.part import Part

TREE: Final = "gfcr_state.json"
ARRAYS: Final = "gfcr_state.bin"
np: Final[Any] = numpy  # its types say too little of arrays of any kind
_FACTORIES: Final[Mapping[str, Callable[[], Any]]] = {
    f.__name__: f for f in (list, dict, set, int, float, str)
}
_SEQUENCES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}
_MAPPINGS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$dict": dict,
    "$counter": lambda pairs: Counter(dict(pairs)),
    "$ordered": OrderedDict,
}
_BUILT_IN: Final = (list, dict, set, frozenset, deque, bytes, bytearray, str, int, float)
Tree: TypeAlias = Any


def write(folder: Path, *, state: Mapping[str, Any]) -> None:
    """Writes `state` into `folder`.

    Raises:
        CheckpointError: it holds what is no data (an open file, a function); says where.
    """
    writer = _Writer()
    try:
        tree = writer.encode(dict(state), where="state")
    except RecursionError as error:
        raise CheckpointError("a part's memory holds itself, which is no data.") from error
    (folder / ARRAYS).write_bytes(bytes(writer.arrays))
    (folder / TREE).write_text(json.dumps(tree), encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """Reads what `write` wrote, into new objects.

    Raises:
        CheckpointError: the files are no state, or name a class that is not there (any more).
    """
    try:
        tree = json.loads((folder / TREE).read_text("utf-8"))
        return _Reader((folder / ARRAYS).read_bytes()).decode(tree)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{folder / TREE} cannot be read ({error})") from error


@final
class _Writer:
    def __init__(self) -> None:
        self.arrays = bytearray()

    def encode(self, value: Any, *, where: str) -> Tree:
        kind = _type(value)  # exact: a subclass may hold more
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return self._items(value, where=where)
        if kind is dict and all(type(k) is str and not k.startswith("$") for k in value):
            return {k: self.encode(v, where=f"{where}[{k!r}]") for k, v in value.items()}
        return self._tagged(value, kind=kind, where=where)

    def _tagged(self, value: Any, *, kind: Any, where: str) -> Tree:
        for tag, maker in {"$tuple": tuple, "$set": set, "$frozenset": frozenset}.items():
            if kind is maker:
                return {tag: self._items(value, where=where)}
        for tag, maker in {"$dict": dict, "$counter": Counter, "$ordered": OrderedDict}.items():
            if kind is maker:
                return {tag: self._pairs(value, where=where)}
        if kind is deque:
            return {"$deque": [self._items(value, where=where), value.maxlen]}
        if kind is defaultdict and getattr(value.default_factory, "__name__", "") in _FACTORIES:
            return {"$default": [value.default_factory.__name__, self._pairs(value, where=where)]}
        if kind in (bytes, bytearray):
            return {f"${kind.__name__}": self._keep(value)}
        if issubclass(kind, numpy.ndarray | numpy.generic) and not value.dtype.hasobject:
            return self._array(np.asarray(value), scalar=issubclass(kind, numpy.generic))
        if issubclass(kind, PurePath):
            return {"$path": str(value)}
        if kind is Random:
            return {"$random": self.encode(value.getstate(), where=where)}
        if kind is np.random.Generator:
            return {"$generator": self.encode(value.bit_generator.state, where=where)}
        return self._object(value, kind=kind, where=where)

    def _object(self, value: Any, *, kind: Any, where: str) -> Tree:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if not _is_allowed(kind) or _class_of(name) is not kind:
            raise CheckpointError(
                f"{where} is a {kind.__module__}.{kind.__qualname__}, which cannot be kept in a "
                "checkpoint. A part's memory holds numbers, text, bytes, arrays, containers of "
                "them, and objects of classes beside the part. Hold those, or give the part its "
                "own state_dict and load_state_dict."
            )
        if issubclass(kind, Enum):
            return {"$enum": [name, value.name]}
        if issubclass(kind, tuple):
            return {"$named": [name, self._items(value, where=where)]}
        held = {
            key: self.encode(each, where=f"{where}.{key}")
            for key, each in _attributes(value).items()
        }
        return {"$object": [name, held]}

    def _items(self, values: Any, *, where: str) -> list[Tree]:
        return [self.encode(v, where=f"{where}[{n}]") for n, v in enumerate(values)]

    def _pairs(self, values: Mapping[Any, Any], *, where: str) -> list[Tree]:
        return [
            [self.encode(k, where=f"{where} key"), self.encode(v, where=f"{where}[{k!r}]")]
            for k, v in values.items()
        ]

    def _array(self, value: Any, *, scalar: bool) -> Tree:
        flat = np.ascontiguousarray(value)
        place = self._keep(flat.tobytes())
        descr = np.lib.format.dtype_to_descr(value.dtype)
        return {"$scalar" if scalar else "$array": [descr, list(value.shape), *place]}

    def _keep(self, held: bytes | bytearray) -> list[int]:
        at = len(self.arrays)
        self.arrays += held
        return [at, len(held)]


@final
class _Reader:
    def __init__(self, arrays: bytes) -> None:
        self._arrays = arrays
        self._by_tag: dict[str, Callable[[Any], Any]] = {
            "$deque": lambda v: deque(self._list(v[0]), maxlen=v[1]),
            "$default": lambda v: defaultdict(_FACTORIES[v[0]], self._pairs(v[1])),
            "$bytes": self._slice,
            "$bytearray": lambda v: bytearray(self._slice(v)),
            "$array": self._array,
            "$scalar": lambda v: self._array(v)[()],
            "$path": Path,
            "$random": self._random,
            "$generator": self._generator,
            "$enum": lambda v: _class_of(v[0])[v[1]],
            "$named": lambda v: _class_of(v[0])._make(self._list(v[1])),
            "$object": self._object,
            **{tag: self._sequence(make) for tag, make in _SEQUENCES.items()},
            **{tag: self._mapping(make) for tag, make in _MAPPINGS.items()},
        }

    def decode(self, tree: Tree) -> Any:
        kind = _type(tree)
        if kind is list:
            return self._list(tree)
        if kind is not dict:
            return tree
        for tag in tree:
            if tag.startswith("$"):
                return self._by_tag[tag](tree[tag])
        return {key: self.decode(value) for key, value in tree.items()}

    def _sequence(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda values: make(self._list(values))

    def _mapping(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda pairs: make(self._pairs(pairs))

    def _list(self, values: list[Any]) -> list[Any]:
        return [self.decode(value) for value in values]

    def _pairs(self, pairs: list[Any]) -> list[tuple[Any, Any]]:
        return [(self.decode(key), self.decode(value)) for key, value in pairs]

    def _slice(self, place: list[int]) -> bytes:
        at, length = place
        if not 0 <= at <= at + length <= len(self._arrays):
            raise ValueError(f"{ARRAYS} is too short")
        return self._arrays[at : at + length]

    def _array(self, held: list[Any]) -> Any:
        descr, shape, *place = held
        dtype = np.lib.format.descr_to_dtype(_descr(descr))
        if dtype.hasobject:
            raise ValueError("an array of objects is no data")
        return np.frombuffer(self._slice(place), dtype).reshape(shape).copy()

    def _random(self, held: Any) -> Random:
        made = Random()
        made.setstate(self.decode(held))
        return made

    def _generator(self, held: Any) -> Any:
        state = self.decode(held)
        bits = {"PCG64": np.random.PCG64, "Philox": np.random.Philox, "SFC64": np.random.SFC64}
        made = bits[state["bit_generator"]]()
        made.state = state
        return np.random.Generator(made)

    def _object(self, held: list[Any]) -> Any:
        kind, attributes = _class_of(held[0]), {k: self.decode(v) for k, v in held[1].items()}
        if _is_record(kind):
            wanted = {f.name for f in dataclasses.fields(kind)}
            if wanted != attributes.keys():
                names = ", ".join(sorted(wanted ^ attributes.keys()))
                raise ValueError(f"{held[0]} has other fields now: {names}")
        made = object.__new__(kind)
        for key, value in attributes.items():
            object.__setattr__(made, key, value)  # also of frozen ones
        return made


def _attributes(value: Any) -> dict[str, Any]:
    if _is_record(type(value)):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}


def _is_allowed(kind: Any) -> bool:
    """Whether objects of the class are data of gfcr's or of a part in this process."""
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


def _type(value: Any) -> Any:
    found: Any = value.__class__
    return found


def _is_record(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _packages() -> set[str]:
    parts: list[type] = [Part]
    for part in parts:  # grows: the subclasses' subclasses follow
        parts += part.__subclasses__()
    return {_package(part) for part in parts}


def _package(kind: Any) -> str:
    return kind.__module__.partition(".")[0]


def _class_of(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for word in path.split("."):
        found = getattr(found, word, None)
    if not isinstance(found, type) or not _is_allowed(found):
        raise ValueError(f"there is no class {name} among gfcr's or its parts'")
    return found


def _descr(held: Any) -> Any:
    """JSON makes lists of the tuples of a structured dtype."""
    if isinstance(held, str):
        return held
    return [(name, _descr(kind), *map(tuple, shape)) for name, kind, *shape in held]
