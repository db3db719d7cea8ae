"""Where a rollout has written a text: that begins its answer, or that ends its turn."""

from bisect import bisect_right
from collections.abc import Sequence
from os.path import commonprefix

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


def before(stop: str, *, tokens: Sequence[int], view: View) -> str | None:
    """Returns the text before a stop that the last token completes; None where it completes none.

    That is the stop's own token, one of several that spell it, or one with more text behind it.
    """
    text, shorter = view.decode(tokens), view.decode(tokens[:-1])
    # A letter may come in parts, the first of which have another text.
    known = len(commonprefix([text, shorter]))  # noqa: RUF071 - texts, not paths
    if (at := text.find(stop, max(0, known + 1 - len(stop)))) >= 0:
        return text[:at]
    return text if tuple(tokens[-1:]) == view.encode(stop) else None
