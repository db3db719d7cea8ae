"""TRL's own functions, which have no types."""

from typing import Any


def utils() -> Any:
    """Returns TRL's module of functions that its trainers log with."""
    from trl.trainer import utils as untyped

    return untyped
