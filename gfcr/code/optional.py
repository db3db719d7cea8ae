"""Libraries of an extra, loaded when first needed."""

import importlib
import importlib.util
from typing import Any

from gfcr.errors import ConfigError


def load(module: str, *, extra: str = "notebooks", instead: str = "") -> Any:
    """Imports a library.

    Raises:
        ConfigError: it is not installed; names the extra that brings it, and what to do `instead`.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"{package} is not installed: pip install 'gfcr[{extra}]'{instead}.")
    return importlib.import_module(module)
