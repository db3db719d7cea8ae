"""What parts share that divide the uniform budget between bounds."""

from gfcr.part import Recipe


def outside(strategy: Recipe, *, low: int, high: int) -> str | None:
    """Returns why a uniform budget cannot be divided with these bounds: see `Part.clash`."""
    if low <= strategy.group_size <= high:
        return None
    return (
        f"group_size={strategy.group_size} lies outside low={low} to high={high}, so that the "
        "uniform budget cannot be divided: change one."
    )
