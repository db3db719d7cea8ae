"""What filters that change rewards share: they are of no use behind the map."""

from gfcr.part import Recipe


def too_late(strategy: Recipe, *, at: str) -> str | None:
    """Returns why what changes rewards cannot stand at an address: see `Part.clash`."""
    if (before := strategy.map_before(at)) is None:
        return None
    return f"strategy.{before} makes advantages of the rewards that it would change: put it first."
