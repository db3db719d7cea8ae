"""Where a rollout has written the text that begins its answer."""

from bisect import bisect_right
from collections.abc import Sequence

from gfcr.stages import View


def begins(marker: str, *, tokens: Sequence[int], view: View) -> int | None:
    """Returns how many tokens precede a marker where it first stands; None where it does not.

    It is looked for as tokens, as special ones have no text, and as text, which a model writes with
    other tokens behind other words.
    """
    own, ids = tuple(tokens), view.encode(marker)
    found = [at for at in range(len(own)) if own[at : at + len(ids)] == ids]
    if (begin := view.decode(own).find(marker)) >= 0:
        places = range(len(own))
        found.append(bisect_right(places, begin, key=lambda at: len(view.decode(own[:at]))) - 1)
    return min(found, default=None)
