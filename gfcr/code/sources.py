"""Digests of the code that a run is made with, so that an edit between two runs is noticed.

gfcr and its strategies have one digest. Of other code, each module that a part of the run lies in
has its own digest: a module in a package counts with the whole package. What these modules import
from elsewhere is not included.
"""

import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from gfcr.code import loose
from gfcr.values.plain import scalars

UNKNOWN: Final = "unknown"
"""The digest of code without a file, such as a class typed into a notebook."""
OURS: Final = ("gfcr", "gfcr_strategies")
"""The names of gfcr's own packages."""
_HOME: Final = Path(__file__).parents[1]
_ADDRESS: Final = re.compile(r"([^:]+\.py|[A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*")
"""Matches an address of code: `path/to/file.py:Name` or `package.module:Name`."""
_BY_VERSION: Final = frozenset(
    {"datasets", "numpy", "torch", "transformers", "trl", "vllm"} | sys.stdlib_module_names
)
"""Libraries that a run's record identifies by their versions."""
_ASKING: Final = (
    *("experiment/heldout.py", "handles/prompts.py"),
    *("loop/runner.py", "loop/scoring.py", "loop/session.py"),
    *("tasks/base.py", "tasks/codec.py", "tasks/functions.py", "tasks/rows.py"),
    *("tasks/verifiers/*.py", "generate/_*.py"),
)
"""Files of gfcr that ask held-out prompts and score the answers, whatever the task."""


def digest(files: Iterable[Path]) -> str:
    """Returns sixteen digits of the files' names and contents, in the order of their paths."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:16]


def modules(package: Path, *, patterns: Iterable[str] = ("**/*.py",)) -> Iterator[Path]:
    """Yields those files of a package's folder that can be imported, of all or by patterns."""
    for file in (file for pattern in patterns for file in package.glob(pattern)):
        # Jupyter keeps copies in `.ipynb_checkpoints`; Emacs' lock `.#x.py` is a link to nothing.
        if not any(part.startswith(".") for part in file.relative_to(package).parts):
            yield file


@lru_cache(maxsize=1)  # a process imports gfcr once: it is told as it was when first asked
def ours() -> str:
    """Returns the digest of gfcr and its strategies."""
    found = [file for name in OURS if (file := _file(name))]
    return digest(file for top in found for file in modules(top.parent))


def roots(objects: Iterable[object], *, spec: object = None) -> set[str]:
    """Returns the modules that parts and functions lie in, and paths of those loaded by path.

    Args:
        objects: parts, classes and functions; classes are taken with their base classes.
        spec: plain values that may hold addresses of code.
    """
    found: set[str] = set()
    for each in objects:
        kind: Any = each if inspect.isroutine(each) or inspect.isclass(each) else type(each)
        found |= {base.__module__ for base in getattr(kind, "__mro__", (kind,))}
    found = {loose.files.get(module, module) for module in found}
    texts = (inner for _, inner in scalars(spec) if isinstance(inner, str))
    for address in filter(_ADDRESS.fullmatch, texts):
        place = address.rpartition(":")[0]
        found.add(str(Path(place).resolve()) if place.endswith(".py") else place)
    return found


def units(start: Iterable[str]) -> dict[str, str]:
    """Returns the digest of each package, module or file outside gfcr that roots lie in."""
    own = [root for root in start if _head(root) not in {*OURS, *_BY_VERSION}]
    found = dict(_unit(root) for root in sorted(own))
    return {name: digest(files) if files else UNKNOWN for name, files in found.items() if name}


def asking(start: Iterable[str]) -> str:
    """Returns one digest of all code that asks held-out prompts and scores the answers.

    Args:
        start: roots of the task and of the Generate part that answers held-out prompts.
    """
    start = [*start]
    files = {*modules(_HOME, patterns=_ASKING)}
    files |= {file for root in start if _head(root) in OURS and (file := _file(root))}
    held = [digest(files), *sorted(units(start).values())]
    return hashlib.sha256(" ".join(held).encode()).hexdigest()[:16]


def _unit(root: str) -> tuple[str, list[Path]]:
    """Returns the name and files of one digest; the name is empty for what is no code at all."""
    if root.endswith(".py"):
        return root, [file] if (file := Path(root)).is_file() else []
    top = _file(_head(root))
    if top is not None and top.name == "__init__.py":
        return _head(root), [*modules(top.parent)]
    file = _file(root)
    # A text may look like an address and be none, but a class that was made has a module.
    return root if file or root in sys.modules else "", [file] if file else []


def _file(module: str) -> Path | None:
    held = sys.modules.get(module)
    try:
        found = importlib.util.find_spec(module) if held is None else None
    except Exception:  # whatever a package that the module lies in raises when it is imported
        found = None
    place = found.origin if found and found.has_location else getattr(held, "__file__", None)
    return Path(place) if place else None


def _head(root: str) -> str:
    return root if root.endswith(".py") else root.partition(".")[0]
