"""gfcr: rollout strategies for LLM RL post-training, generated, filtered, controlled, replayed."""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gfcr import leaderboard, strategy
    from gfcr.studies import run, study

    __version__: str

__all__ = ["__version__", "leaderboard", "run", "strategy", "study"]

_FUNCTIONS: Final = ("run", "study")


def __getattr__(name: str) -> object:
    """Loads what the package exports when it is first asked for: `import gfcr` stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'gfcr' has no attribute '{name}'")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("gfcr")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("gfcr.studies"), name)
    return importlib.import_module(f"gfcr.{name}")


def __dir__() -> list[str]:
    return list(__all__)
