"""Whether requests end where they must: a law that is right for each token says nothing of it."""

from collections.abc import Collection, Sequence

from gfcr.audit.sampler import Sampled
from gfcr.types import FinishReason


def wrong(sampled: Sequence[Sampled], *, ends: Collection[int] | None) -> int:
    """Requests that ended where they should not have, or went on where they should have ended.

    Args:
        sampled: the requests.
        ends: the tokens that end a request; None where they are not known.
    """
    return sum(_wrong(one, ends=ends) for one in sampled)


def _wrong(one: Sampled, *, ends: Collection[int] | None) -> bool:
    num = len(one.tokens)
    cut = one.finish is FinishReason.LENGTH and num != one.asked
    if ends is None or one.endless or not num:
        return cut or num > one.asked
    went_on = any(token in ends for token in one.tokens[:-1])
    stopped = one.finish is FinishReason.STOP and one.tokens[-1] not in ends
    missed = one.finish is FinishReason.LENGTH and one.tokens[-1] in ends
    return cut or num > one.asked or went_on or stopped or missed
