"""What filters that change rewards share: they are of no use behind the map."""

from gfcr.strategy import Strategy


def too_late(strategy: Strategy, *, at: str) -> str | None:
    """Why what changes rewards cannot stand at an address: see `Part.clash`."""
    if (before := strategy.map_before(at)) is None:
        return None
    return f"strategy.{before} makes advantages of the rewards that it would change: put it first."
