"""Loads modules from files that no import statement finds, by their paths."""

import importlib
import importlib.util
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from gfcr.errors import near_file

PREFIX: Final = "gfcr_loose_"
"""Prefix of the names of such modules."""
files: Final[dict[str, str]] = {}
"""The file of every module loaded by `load`, by the module's name."""
_texts: Final[dict[str, bytes]] = {}
"""What those files held when they were loaded."""


def name_of(path: Path) -> str:
    """Returns the name that a file's module has, or would have."""
    # Two folders may hold files of the same name.
    return f"{PREFIX}{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"


def find(place: str) -> ModuleType:
    """Imports a module by name (`package.module`) or from a file (`path/to/file.py`)."""
    return load(Path(place)) if place.endswith(".py") else importlib.import_module(place)


def refresh() -> None:
    """Forgets modules whose files were edited since they were loaded: `load` then loads them anew.

    Only where no run is going on in this process: what is made of the module before stays as it is.
    """
    for name, file in files.items():
        if not Path(file).is_file() or Path(file).read_bytes() != _texts[name]:
            sys.modules.pop(name, None)


def load(path: Path) -> Any:
    """Loads the module of a file; loading it twice gives the same module.

    The modules beside it can be imported from then on, as by a script, after all others.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        here = "" if path.is_absolute() else f" in {Path.cwd()}, from where paths of code count"
        raise FileNotFoundError(f"no file {path}{here}.{near_file(path)}")
    name, file = name_of(path), path.resolve()
    if name not in sys.modules:
        module_spec = importlib.util.spec_from_file_location(name, file)
        assert module_spec is not None
        if (folder := str(file.parent)) not in sys.path:
            sys.path.append(folder)
        text = file.read_bytes()
        sys.modules[name] = importlib.util.module_from_spec(module_spec)
        try:
            # Not by its loader: that takes a compiled file for one edited in the same second.
            exec(compile(text, str(file), "exec", dont_inherit=True), vars(sys.modules[name]))
        except BaseException:
            del sys.modules[name]
            raise
        files[name], _texts[name] = str(file), text
    return sys.modules[name]
