"""TRL's own helpers, which have no types."""

from typing import Any


def utils() -> Any:
    """Returns TRL's module of helpers, which its trainers log with."""
    from trl.trainer import utils as untyped

    return untyped
