"""What code a part is: its files and those of what it imports, by reading and without importing.

Imports are followed through every statement of a file, also inside functions, and through
`import_module("name")`. A package of one's own counts whole; of a library that it imports the
library's files count, and what the library imports does not. What is called by a name that is made
up at run time, loaded from data, or put into gfcr's modules by a script is not seen.
"""

import ast
import hashlib
import importlib.util
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from gfcr.code import loose
from gfcr.code.files import digest, package
from gfcr.values.plain import is_mapping

Root: TypeAlias = str
"""A module's name, or the path of a file that no import statement finds."""

UNKNOWN: Final = "unknown"
"""Digest of code that has no file, such as a class typed into an interpreter."""
_ADDRESS: Final = re.compile(r"([^:]+\.py|[A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*")
"""Of code: `path/to/file.py:Name` or `package.module:Name`."""
OURS: Final = ("gfcr", "gfcr_strategies")
"""Packages that are gfcr's own."""
_HOME: Final = Path(__file__).parents[1]
_BY_VERSION: Final = frozenset(
    {"datasets", "numpy", "torch", "transformers", "trl", "vllm"} | sys.stdlib_module_names
)
"""Libraries that a run's record tells by their versions."""
_ASKING: Final = (
    *(
        "gfcr.experiment.heldout",
        "gfcr.loop.floor",
        "gfcr.loop.runner",
        "gfcr.loop.scoring",
        "gfcr.loop.session",
        "gfcr.tasks.codec",
    ),
    *("gfcr.loop.columns", "gfcr.loop.trajectory", "gfcr.loop.view"),
)
"""What of gfcr asks held-out prompts and scores the answers, whatever the task."""
_ASKED_BY: Final = (
    "gfcr.tasks.",
    "gfcr.generate.",
    "gfcr.loop.confined",
    "gfcr.loop.pool",
    *_ASKING,
)
"""What of gfcr a task, and a part that rolls held-out prompts out, may use to that end."""
_NAMED_FOLDER: Final = "gfcr.tasks.verifiers"
"""Package whose modules a part's configuration names by a word."""
_LONGEST: Final = 200
"""Bytes of a module's name: a file system refuses to look for much longer ones."""
_IMPORTERS: Final = ("import_module", "__import__")


@lru_cache(maxsize=1)
def ours() -> str:
    """Returns the digest of gfcr and its strategies, as they lie when it is first asked for."""
    return digest(file for files in own_files().values() for file in files)


def own_files() -> dict[Path, list[Path]]:
    """Returns the folders of gfcr and its strategies with the files of code in each."""
    folders = [Path(folder) for name in OURS for folder in _top(name)[1]]
    return {folder: package([folder]) for folder in folders}


def addresses(value: object) -> Iterator[str]:
    """Yields every address of code that is not gfcr's in a spec, under whichever key it stands."""
    for text in _addresses(value):
        if text.partition(".")[0] not in OURS:
            yield text


def roots(objects: Iterable[object], *, spec: object = None) -> set[Root]:
    """Returns where the code of parts and functions starts.

    Args:
        objects: parts, classes and functions; with a class come those it inherits from.
        spec: plain values that may hold addresses of code, or words that name a verifier.
    """
    found: set[Root] = set()
    for each in objects:
        kind: Any = each if inspect.isroutine(each) or inspect.isclass(each) else type(each)
        found |= {base.__module__ for base in getattr(kind, "__mro__", (kind,))}
    found = {loose.files.get(module, module) for module in found}
    for address in _addresses(spec):
        place = address.rpartition(":")[0]
        found.add(str(Path(place).resolve()) if place.endswith(".py") else place)
    words = {t for t in _texts(spec) if t.isidentifier() and len(t.encode()) <= _LONGEST}
    named = {f"{_NAMED_FOLDER}.{word}" for word in words}
    return {r for r in found if not _skipped(r)} | {name for name in named if _locate(name)}


def units(start: Collection[Root]) -> dict[str, str]:
    """Returns the digest of each package, module or file outside gfcr that roots lead to."""
    own = {root for root in start if _head(root) not in OURS}
    found = _reached(own, follow=lambda name: _head(name) not in OURS)
    # An address may be a text that only looks like one, but a class that was made has a module.
    known = {_unit(root) for root in own if root.endswith(".py") or _head(root) in sys.modules}
    return {unit: _held(frozenset(found.get(unit, ()))) for unit in sorted({*found, *known})}


def asking(start: Collection[Root]) -> str:
    """Returns the digest of all files that ask and score: those roots lead to, gfcr's among them.

    Args:
        start: of the task and the part that rolls held-out prompts out.
    """
    found = _reached({*start, *_ASKING}, follow=_asks)
    held = sorted(_held(frozenset(files)) for files in found.values())
    return hashlib.sha256(" ".join(held).encode()).hexdigest()[:16]


def _asks(name: str) -> bool:
    return _head(name) not in OURS or name.startswith(_ASKED_BY)


# ---------------------------------------------------------------- following imports


def _reached(start: Collection[Root], *, follow: Callable[[str], bool]) -> dict[str, set[Path]]:
    """Files by unit. Libraries that are no root's own count whole and are not read further."""
    found: dict[str, set[Path]] = {}
    heads, todo, seen = {_head(root) for root in start}, sorted(start), set[str]()
    while todo:
        name = todo.pop()
        if name in seen or _skipped(name) or not follow(name):
            continue
        seen.add(name)
        file = Path(name) if name.endswith(".py") else _locate(name)
        if file is None or not file.is_file():
            continue
        found.setdefault(_unit(name), set()).update(_files(name, file))
        if file.suffix == ".py" and (_head(name) in heads or _is_own(name, file)):
            stat = file.stat()
            todo += _imports(name, file, (stat.st_mtime_ns, stat.st_size))
    return found


@lru_cache(maxsize=4096)
def _imports(module: str, file: Path, stamp: tuple[int, int]) -> tuple[str, ...]:
    """Names that may be modules; `stamp` tells the file from what it was before an edit."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(dict.fromkeys(n for node in ast.walk(tree) for n in _named(node, package)))


def _named(node: ast.AST, package: str) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            base = ".".join([*above, *([module] if module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in names)
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name),
            args=[ast.Constant(value=str() as text), *_],
        ) if name in _IMPORTERS:
            yield text
        case _:
            return


# ---------------------------------------------------------------- finding files


def _locate(module: str) -> Path | None:
    """The file of a module; its packages are looked up, not imported."""
    if not all(word.isidentifier() for word in module.split(".")):
        return None
    top, *rest = module.split(".")
    file, folders = _top(top)
    for word in rest:
        file, folders = _below(word, folders)
    return file


def _top(name: str) -> tuple[Path | None, list[str]]:
    module = sys.modules.get(name)
    if module is not None:
        file: str | None = getattr(module, "__file__", None)
        return (Path(file) if file else None), list(getattr(module, "__path__", ()))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return None, []
    file = spec.origin if spec.has_location else None
    return (Path(file) if file else None), list(spec.submodule_search_locations or ())


def _below(word: str, folders: Sequence[str]) -> tuple[Path | None, list[str]]:
    for folder in map(Path, folders):
        inner = folder / word
        if (inner / "__init__.py").is_file():
            return inner / "__init__.py", [str(inner)]
        for file in (folder / f"{word}.py", *folder.glob(f"{word}.*.so"), folder / f"{word}.so"):
            if file.is_file():
                return file, []
        if inner.is_dir():
            return None, [str(inner)]
    return None, []


def _files(name: str, file: Path) -> Collection[Path]:
    """Of a package of one's own or a library: all of its code. Of gfcr, and of others: the file."""
    top, folders = _top(_head(name)) if not name.endswith(".py") else (None, [])
    if _head(name) in OURS or not folders or top is None:
        return [file]
    return package(folders)


def _unit(name: str) -> str:
    """What is told as one: a package, a module that is in none, a file."""
    head = _head(name)
    whole = name.endswith(".py") or head in OURS or _top(head)[0] is None
    return name if whole and head not in OURS else head


def _head(name: str) -> str:
    return name if name.endswith(".py") else name.partition(".")[0]


def _skipped(name: str) -> bool:
    """Not where a folder of one's own holds a module of a library's name: that one is imported."""
    if _head(name) not in _BY_VERSION:
        return False
    file = _top(_head(name))[0]
    return file is None or _installed(file)


def _is_own(name: str, file: Path) -> bool:
    return not _installed(file) and _head(name) not in _BY_VERSION


@lru_cache(maxsize=8192)
def _installed(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in _libraries())


@lru_cache(maxsize=1)
def _libraries() -> frozenset[str]:
    names = ("purelib", "platlib", "stdlib", "platstdlib")
    return frozenset(sysconfig.get_path(name) for name in names)


_first = lru_cache(maxsize=256)(digest)


def _held(files: frozenset[Path]) -> str:
    if not files:
        return UNKNOWN
    # What a process imports once is told as it was when the process first asked.
    kept = all(_installed(file) or file.is_relative_to(_HOME) for file in files)
    try:
        return _first(files) if kept else digest(files)
    except OSError:
        return UNKNOWN


def _addresses(value: object) -> Iterator[str]:
    return (text for text in _texts(value) if _ADDRESS.fullmatch(text))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inner: Iterable[object] = (
        cast(Mapping[str, object], value).values() if is_mapping(value) else ()
    )
    if isinstance(value, list | tuple):
        inner = cast(Sequence[object], value)
    for each in inner:
        yield from _texts(each)
