"""Finds where a stop ends a rollout, on its text, whichever tokens spell it."""

from collections.abc import Sequence
from operator import itemgetter
from os.path import commonprefix
from typing import Final

from gfcr.tasks.base import Codec
from gfcr.types import Sampling

_SPARE: Final = 8
"""Tokens looked at beyond the longest stop, for those that are no text of their own."""


def ends_at(tokens: Sequence[int], *, new: int, sampling: Sampling, codec: Codec) -> int | None:
    """Returns the number of tokens up to the one that completes a stop; None if none does.

    Args:
        tokens: the completion so far.
        new: how many of them, at the end, have come since it was last asked.
        sampling: holds the stops.
        codec: decodes.
    """
    if not sampling.stop:
        return None
    # A token of text has a byte or more, so that nothing further back belongs to a new stop.
    longest = max(len(stop.encode()) for stop in sampling.stop)
    start = max(0, len(tokens) - new - longest - _SPARE)
    shorter = codec.decode(tokens[start : len(tokens) - new])
    # A step that verifies drafts brings several tokens, of which the first stop counts.
    for count in range(len(tokens) - new + 1, len(tokens) + 1):
        text = codec.decode(tokens[start:count])
        if _found(text, shorter=shorter, stops=sampling.stop) is not None:
            return count
        shorter = text
    return None


def text_of(tokens: Sequence[int], *, sampling: Sampling, codec: Codec) -> str:
    """Decodes a completion; a stop that its last token completes is left out, unless included."""
    text = codec.decode(tokens)
    if not tokens or not (sampling.stop or sampling.stop_token_ids):
        return text
    shorter = codec.decode(tokens[:-1])
    if (found := _found(text, shorter=shorter, stops=sampling.stop)) is not None:
        end, begin = found
        return text[:end] if sampling.include_stop else text[:begin]
    stopped = tokens[-1] in sampling.stop_token_ids and not sampling.include_stop
    return shorter if stopped else text


def _found(text: str, *, shorter: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """Returns end and begin of the stop that ends first, of equals the first in the list.

    Args:
        text: what is searched.
        shorter: its text without the last token, the stops of which are known.
        stops: the stops.
    """
    known = len(commonprefix([text, shorter]))  # noqa: RUF071 - texts, not paths
    # A stop that ends within the text in common was complete before, and was found then.
    places = ((text.find(stop, max(0, known + 1 - len(stop))), len(stop)) for stop in stops)
    ends = [(at + size, at) for at, size in places if at >= 0]
    return min(ends, key=itemgetter(0), default=None)
