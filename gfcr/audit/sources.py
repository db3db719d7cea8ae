"""A digest of the code that decides how tokens are sampled, ours and a user's own."""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import gfcr
from gfcr import registry
from gfcr.part import Part

_OURS: Final = ("engine/*.py", "speculation/*.py", "seeds.py", "types.py")


def digest_of(engine: Mapping[str, Any], drafter: Mapping[str, Any] | None) -> str:
    """Returns the digest for the specs of an engine and its drafter.

    It covers gfcr's engines and drafters, and the modules of parts that are not gfcr's, with those
    of the classes they inherit from; of a package, all of its modules. What such a lone file
    imports beside it is not covered.
    """
    classes = {registry.find("engine", str(engine["name"]))}
    if drafter:
        classes |= set(_classes(registry.build("drafter", drafter)))
    total = hashlib.sha256(_ours())
    for file in sorted({f for part in classes for f in _files(part)}):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:16]


@lru_cache(maxsize=1)
def _ours() -> bytes:
    root = Path(gfcr.__file__).parent
    files = [file for pattern in _OURS for file in root.glob(pattern)]
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.digest()


def _classes(part: Part) -> Iterator[type[Part]]:
    yield type(part)
    for inner in registry.inner(part).values():
        yield from _classes(inner)


def _files(part: type[Part]) -> Iterator[Path]:
    for base in part.__mro__:
        top = base.__module__.partition(".")[0]
        if top == "gfcr" or top in sys.stdlib_module_names:
            continue
        package: list[str] = list(getattr(sys.modules[top], "__path__", []))
        yield from (file for folder in package for file in Path(folder).rglob("*.py"))
        alone: str | None = getattr(sys.modules[base.__module__], "__file__", None)
        if not package and alone is not None:
            yield Path(alone)
