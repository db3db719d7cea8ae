"""Libraries of the `notebooks` extra, loaded when first needed; their types are not checked."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from gfcr.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
    from pandas import DataFrame as DataFrame  # pyright: ignore[reportMissingTypeStubs]


def load(module: str) -> Any:
    """Imports a library.

    Raises:
        ConfigError: it is not installed; names the extra that brings it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"{package} is not installed: pip install 'gfcr[notebooks]'.")
    return importlib.import_module(module)
