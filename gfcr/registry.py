"""Spec <-> part: a part's name is its file's name, and its fields are its keys.

`zero_variance` is `ZeroVariance` in `gfcr/filter/zero_variance.py`; `package.module:Class` and
`path/to/file.py:Class` reach any other code; installed packages add names by entry points of the
groups named like the packages (`gfcr.filter`). Nothing is imported before it is asked for.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any, get_type_hints

from gfcr.code import described, loose
from gfcr.errors import ConfigError, did_you_mean, shown, unknown_name
from gfcr.part import Part
from gfcr.taxonomy import CELL_OF
from gfcr.values import plain
from gfcr.values.plain import mapping
from gfcr.values.ranges import describe, hints_of, values_of

_KINDS = {
    "generate": ("gfcr.generate", "gfcr.stages:Generate"),
    "filter": ("gfcr.filter", "gfcr.stages:Filter"),
    "control": ("gfcr.control", "gfcr.stages:Control"),
    "replay": ("gfcr.replay", "gfcr.stages:Replay"),
    "environment": ("gfcr.generate.environments", "gfcr.generate.environments.base:Environment"),
    "correction": ("gfcr.correction", "gfcr.correction.base:Correction"),
    "drafter": ("gfcr.speculation", "gfcr.speculation.base:Drafter"),
    "task": ("gfcr.tasks", "gfcr.tasks.base:Task"),
    "judge": ("gfcr.control.judges", "gfcr.control.judges.base:Judge"),
    "verifier": ("gfcr.tasks.verifiers", "gfcr.tasks.verifiers.base:Verifier"),
    "tool": ("gfcr.generate.tools", "gfcr.generate.tools.base:Tool"),
    "engine": ("gfcr.engine", "gfcr.engine.base:EngineConfig"),
    "trainer": ("gfcr.train", "gfcr.train.base:TrainerConfig"),
    "schedule": ("gfcr.schedule", "gfcr.schedule.base:Schedule"),
    "tracking": ("gfcr.tracking", "gfcr.tracking.base:Tracker"),
    "launcher": ("gfcr.launch", "gfcr.launch.base:Launcher"),
    "stopping": ("gfcr.search", "gfcr.search.base:StoppingRule"),
}
KINDS = {kind: package for kind, (package, _) in _KINDS.items()}
"""Kind of part -> package that holds one file for each."""
BASES = {kind: base for kind, (_, base) in _KINDS.items()}
"""Kind of part -> the class that its parts inherit."""
_KEYS = {
    **{kind: f"strategy.{kind}" for kind in ("generate", "drafter", "correction")},
    **{kind: f"strategy.{kind}s" for kind in ("filter", "control", "replay")},
    **{k: k for k in ("task", "engine", "trainer", "schedule", "tracking", "launcher", "stopping")},
}
"""Kind of part -> the key of an experiment that it is given under; others are parts of parts."""
_SAID = ("paper", "cell", "origin")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of `gfcr list`."""

    name: str
    kind: str
    summary: str
    source: str
    """Module, or the entry point's target."""
    paper: str = ""
    cell: str = ""
    """In the survey's tree, see `gfcr.taxonomy`."""
    origin: str = ""


def names(kind: str) -> list[str]:
    """Names of all parts of a kind, ours and installed ones."""
    return sorted({*_files(kind), *_entry_points(kind)})


def entries(kind: str) -> list[Entry]:
    """Describes every part of a kind; ours are read, not imported."""
    ours = [_read(kind, name, path) for name, path in sorted(_files(kind).items())]
    return ours + [_ask(kind, name) for name in sorted(_entry_points(kind))]


def find(kind: str, name: str, *, where: str = "") -> type[Part]:
    """The class of the part called `name`.

    Raises:
        ConfigError: no such name, with the nearest one, or what it names is no part of the kind.
    """
    points = _entry_points(kind)
    if ":" in name:
        found = load_object(name, where=where)
    elif name in points:
        found = points[name].load()
    elif name in _files(kind):
        found = getattr(importlib.import_module(f"{KINDS[kind]}.{name}"), class_name(name))
    else:
        unknown = unknown_name(name, kind=kind, allowed=names(kind), where=where)
        raise ConfigError(f"{unknown}{_elsewhere(kind, name)}")
    if lacking := _lacks(found, kind=kind):
        raise ConfigError(
            f"{where or kind}: {shown(name)} is no {kind}: give a dataclass that {lacking}."
            + (f" It{_belongs(own)}" if (own := kind_of(found)) else "")
        )
    return found


def kind_of(found: object) -> str | None:
    """Returns the kind that a class is a part of; None for what is no part of any."""
    if not inspect.isclass(found) or not issubclass(found, Part):
        return None
    return next((k for k in KINDS if issubclass(found, load_object(BASES[k]))), None)


def build(kind: str, spec: Any, *, where: str = "") -> Any:
    """Makes a part of `{name: ..., key: value, ...}`, a bare name, or returns a part as it is.

    Raises:
        ConfigError: unknown name or key, or a value of the wrong type.
    """
    if isinstance(spec, Part):
        return spec
    where = where or kind
    example = f"{{name: {next(iter(names(kind)), 'NAME')}}}"
    values = (
        {"name": spec} if isinstance(spec, str) else mapping(spec, where=where, example=example)
    )
    if not isinstance(values.get("name", ""), str):
        raise ConfigError(f"{where}.name={shown(values['name'])} is not allowed: give a name.")
    if "name" not in values:
        raise ConfigError(f"{where}: the key `name` is missing. Allowed: {', '.join(names(kind))}.")
    part = find(kind, values.pop("name"), where=where)
    inner = {k: i for k, i in _inner_kinds(part).items() if k in values}
    values |= {k: build(i, values[k], where=f"{where}.{k}") for k, i in inner.items()}
    return part(**plain.merge(part, {}, values, where=where))


def spec(kind: str, part: Part) -> dict[str, Any]:
    """The inverse of `build`: the part's name and every value."""
    values = values_of(part)
    inner = {k: spec(i, values[k]) for k, i in _inner_kinds(type(part)).items()}
    return {"name": name_of(kind, type(part)), **values, **inner}


def nested(part: Part, *, at: str = "") -> dict[str, Part]:
    """The part and those that it is made of, by address, outermost first."""
    found = {at: part}
    for name in _inner_kinds(type(part)):
        found |= nested(getattr(part, name), at=f"{at}.{name}")
    return found


def name_of(kind: str, part: type[Part]) -> str:
    """The name under which `find` gives the class back."""
    module = part.__module__.rpartition(".")
    if module[0] == KINDS[kind] and class_name(module[2]) == part.__name__:
        return module[2]
    address = f"{part.__module__}:{part.__qualname__}"
    for name, point in _entry_points(kind).items():
        if point.value == address:
            return name
    loosely = part.__module__.startswith(loose.PREFIX)
    return f"{inspect.getfile(part)}:{part.__qualname__}" if loosely else address


def fields_of(part: type[Part]) -> list[dict[str, str]]:
    """A part's configuration: name, type, default and the docstring under the field."""
    hints, docs = hints_of(part), described.field_docs(part)
    return [
        {
            "name": f.name,
            "type": describe(hints[f.name]),
            "default": "required" if plain.is_required(f) else repr(plain.default_of(f)),
            "doc": docs.get(f.name, ""),
        }
        for f in _fields(part)
        if f.init
    ]


def class_name(name: str) -> str:
    """`zero_variance` -> `ZeroVariance`."""
    return "".join(word.capitalize() for word in name.split("_"))


def load_object(address: str, *, where: str = "") -> Any:
    """Imports `package.module:Name` or `path/to/file.py:Name`; `where` is the key that says it."""
    place, _, name = address.rpartition(":")
    held: Mapping[str, Any] = {}
    try:
        module = loose.find(place)
        held = vars(module)
        return getattr(module, name)
    except Exception as error:  # whatever the file does when it is imported
        why = f"{type(error).__name__}: {str(error).rstrip('.')}.".replace("?.", "?")
        why = f"{place} has no {name!r}.{did_you_mean(name, held)}" if held else why
        raise ConfigError(
            f"{where and f'{where}='}{shown(address)} cannot be loaded: {why} "
            "Mend what lies there, or give another `package.module:Name` or `path/to/file.py:Name`."
        ) from error


# ---------------------------------------------------------------- finding


def _lacks(found: Any, *, kind: str) -> str:
    """Returns why a class is no part of the kind; empty where it is one."""
    base: type[Part] = load_object(BASES[kind])
    if not inspect.isclass(found) or not issubclass(found, base):
        return f"inherits {BASES[kind].replace(':', '.')}"
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        return f"writes {', '.join(missing)}"
    return "" if "__dataclass_fields__" in dir(found) else "has the decorator @dataclass"


def _elsewhere(kind: str, name: str) -> str:
    """Returns which other kinds have a part of this name; empty where none has."""
    others = (k for k in KINDS if k != kind and name in names(k))
    return "".join(f" '{name}'{_belongs(k)}" for k in others)


def _belongs(kind: str) -> str:
    """Returns ` is a control: give it under ...` for the kind that a part is of."""
    where = f"under `{_KEYS[kind]}`" if kind in _KEYS else "to a part that takes one"
    return f" is {'an' if kind[0] in 'aeiou' else 'a'} {kind}: give it {where}."


@lru_cache(maxsize=256)  # every group asks which hooks of its strategy's parts are wrapped
def _inner_kinds(part: type[Part]) -> Mapping[str, str]:
    """Init fields that hold parts, with their kinds: a kind's base class is called like it."""
    hints = get_type_hints(part)
    kinds = {
        f.name: hints[f.name].__name__.lower()
        for f in _fields(part)
        if f.init and isinstance(hints[f.name], type) and issubclass(hints[f.name], Part)
    }
    return {name: kind for name, kind in kinds.items() if kind in KINDS}


def _files(kind: str) -> dict[str, Path]:
    """Modules of the kind's package that define the class their file name promises."""
    folder = Path(importlib.import_module(KINDS[kind]).__path__[0])
    return _defined(folder, folder.stat().st_mtime_ns)


@lru_cache(maxsize=64)  # of a folder as it was: what it holds is asked for at every part
def _defined(folder: Path, changed: int) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for module in pkgutil.iter_modules([str(folder)]):
        path = folder / f"{module.name}.py"
        if path.is_file() and f"\nclass {class_name(module.name)}(" in path.read_text("utf-8"):
            found[module.name] = path
    return found


def _entry_points(kind: str) -> dict[str, Any]:
    return installed(KINDS[kind])


def installed(group: str) -> dict[str, Any]:
    """Entry points of a group, by name."""
    return {e.name: e for e in _looked_up(group, tuple(sys.path))}


@lru_cache(maxsize=64)
def _looked_up(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Kept for a path: looking takes longer than everything else about making a part."""
    return _all(path).select(group=group)


@lru_cache(maxsize=8)  # every group is read from the same files
def _all(path: tuple[str, ...]) -> Any:  # Python 3.11 and 3.12 name its type differently
    return entry_points()


def _read(kind: str, name: str, path: Path) -> Entry:
    """Reads description, paper and place from the source: listing imports nothing."""
    summary, given = described.summary_of(path, name=class_name(name))
    said = {key: given[key] for key in _SAID if key in given}
    module = f"{KINDS[kind]}.{name}"
    return Entry(name=name, kind=kind, summary=summary, source=module, **_placed(kind, said))


def _placed(kind: str, said: Mapping[str, str]) -> dict[str, str]:
    return {**said, "cell": said.get("cell") or CELL_OF.get(kind, "")}


def _fields(part: Any) -> "tuple[dataclasses.Field[Any], ...]":
    """Parts are dataclasses by contract, which their base class cannot say."""
    return dataclasses.fields(part)


def _ask(kind: str, name: str) -> Entry:
    part = find(kind, name)
    summary = (inspect.getdoc(part) or "").partition("\n")[0]
    source = _entry_points(kind)[name].value
    said = {key: str(getattr(part, key)) for key in _SAID}
    return Entry(name=name, kind=kind, summary=summary, source=source, **_placed(kind, said))
