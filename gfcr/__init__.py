"""gfcr: rollout strategies for LLM RL post-training, generated, filtered, controlled, replayed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gfcr.studies import study

__all__ = ["study"]


def __getattr__(name: str) -> object:
    """Loads what the package exports when it is first asked for: `import gfcr` stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'gfcr' has no attribute '{name}'")
    from gfcr import studies

    return getattr(studies, name)
