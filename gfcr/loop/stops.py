"""Finds where a stop ends a rollout, on its text, whichever tokens spell it."""

from collections.abc import Sequence
from operator import itemgetter
from os.path import commonprefix
from typing import Final

from gfcr.errors import ConfigError
from gfcr.tasks.base import Codec
from gfcr.types import Sampling

_SPARE: Final = 8
"""Tokens looked at beyond the longest stop, for those that are no text of their own."""


def ends_at(
    tokens: Sequence[int], *, new: int, stops: Sequence[str], codec: Codec
) -> tuple[int, str] | None:
    """Returns the number of tokens up to the one that completes a stop, and which; None if none.

    Args:
        tokens: the completion so far.
        new: how many of them, at the end, have come since it was last asked.
        stops: the texts; empty ones are none.
        codec: decodes.
    """
    stops = [stop for stop in stops if stop]
    if not stops or not _may_end(codec.decode(tokens[len(tokens) - new :]), stops=stops):
        return None
    # A token of text has a byte or more, so that nothing further back belongs to a new stop.
    longest = max(len(stop.encode()) for stop in stops)
    start = max(0, len(tokens) - new - longest - _SPARE)
    shorter = codec.decode(tokens[start : len(tokens) - new])
    # A step that verifies drafts brings several tokens, of which the first stop counts.
    for count in range(len(tokens) - new + 1, len(tokens) + 1):
        text = codec.decode(tokens[start:count])
        if (found := _found(text, shorter=shorter, stops=stops)) is not None:
            return count, text[found[1] : found[0]]
        shorter = text
    return None


def parted(stop: str | Sequence[int], *, codec: Codec) -> tuple[tuple[int, ...], str]:
    """Returns the tokens at which an engine stops for a stop, and the text to look for.

    Other tokens than its own may spell a text, or have it in their middle. Special ones have none.

    Raises:
        ConfigError: it is several tokens, some of which have no text.
    """
    if not isinstance(stop, str):
        return tuple(stop), ""
    ids = codec.encode(stop)
    text = stop if stop.strip() in codec.decode(ids) else ""
    if stop and not text and len(ids) != 1:
        raise ConfigError(
            f"stop {stop!r} is {len(ids)} tokens, special ones among them, which have no text: "
            "give one of them alone, or a text without."
        )
    return (ids if len(ids) == 1 else ()), text


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


def _may_end(new: str, *, stops: Sequence[str]) -> bool:
    """Tells whether new text may complete a stop: it has its last letter, or a part of a letter.

    Most steps end here, for a fraction of the time. White space may be missing in front of a text.
    """
    return "\ufffd" in new or any(s[-1] in new or s[-1].isspace() for s in stops)


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
