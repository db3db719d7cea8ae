"""Where in a completion's tokens a place of its text lies."""

from collections.abc import Sequence

from gfcr.stages import View


def reaching(tokens: Sequence[int], *, chars: int, view: View) -> int:
    """Number of the first tokens whose text has so many characters."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if len(view.decode(tokens[:middle])) < chars:
            low = middle + 1
        else:
            high = middle
    return low
