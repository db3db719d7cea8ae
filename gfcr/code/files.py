"""Files of code: which of them `import` finds, their digest, and whether they are what runs."""

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from importlib.machinery import SourceFileLoader, all_suffixes
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final, NoReturn, final

_CODE: Final = (*all_suffixes(), ".pyd")


def is_code(file: Path) -> bool:
    """Whether `import` runs such files, a `.pyc` that has no source among them."""
    return file.name.endswith(_CODE)


def package(folders: Iterable[str | Path]) -> list[Path]:
    """Returns all code below the folders, through links too, but what Python caches of it."""
    found: list[Path] = []
    for top in folders:
        seen = set[str]()
        for folder, inner, names in os.walk(top, followlinks=True):
            seen.add(os.path.realpath(folder))
            new = [name for name in inner if os.path.realpath(Path(folder, name)) not in seen]
            inner[:] = [name for name in new if name != "__pycache__"]
            found += [file for name in names if is_code(file := Path(folder, name))]
    return [file for file in found if file.is_file()]


def digest(files: Iterable[Path]) -> str:
    """Returns sixteen digits of the files' names and contents, in the order of their paths.

    Bytecode that is not of its file counts too: no other machine comes to that digest.
    """
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
        if foreign(file):
            total.update(b"\0" + _cache(file).read_bytes())
    return total.hexdigest()[:16]


def foreign(file: Path) -> bool:
    """Whether `import` would take cached bytecode for `file` that is not what it compiles to.

    Neither the header of a `.pyc` nor the hash in it speaks for its code, so the code is compared:
    about a millisecond a file. False where nothing is cached, or Python would not take it.
    """
    try:
        stats = [path.stat() for path in (file, _cache(file))] if file.suffix == ".py" else []
    except FileNotFoundError:
        return False
    return bool(stats) and _differs(file, tuple((s.st_mtime_ns, s.st_size) for s in stats))


@lru_cache(maxsize=4096)
def _differs(file: Path, stamp: tuple[tuple[int, int], ...]) -> bool:
    """`stamp` tells the files from what they were before."""
    try:
        cached = _Cached("cached", str(file)).get_code("cached")
        return cached != compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except _StaleError:
        return False
    except Exception:  # a damaged one, whatever it comes to
        return True


def _cache(file: Path) -> Path:
    return Path(cache_from_source(file))


class _StaleError(Exception):
    pass


@final
class _Cached(SourceFileLoader):
    """Reads what is cached as `import` does, all rules of when it is stale included."""

    def source_to_code(self, *_: Any, **__: Any) -> NoReturn:
        """What has to be compiled was not cached."""
        raise _StaleError

    def set_data(self, *_: Any, **__: Any) -> None:
        """Caches nothing."""
