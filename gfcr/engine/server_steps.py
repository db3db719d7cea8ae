"""Records of the engine steps that sampled each request, to which an audit aligns tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One engine step from the view of one request."""

    step: int
    """Number of the step, unique over all servers of the engine."""
    row: int
    """Index of the request among those that gained tokens in the step."""
    running: int
    """Number of requests that gained tokens in the step."""
    gained: int
    """Tokens that the request gained."""
    drafts: tuple[int, ...]
    """Draft tokens that were verified for the request."""


Steps: TypeAlias = Sequence[Traced]


def by_request(told: Sequence[Sequence[Any]]) -> Mapping[str, Steps]:
    """Groups recorded steps by request id, in order.

    Args:
        told: what `vllm_inside` recorded, one list per server.
    """
    found: dict[str, list[Traced]] = {}
    for place, rows in enumerate(told):
        for key, step, row, running, gained, drafts in rows:
            one = Traced(
                step=step * len(told) + place,
                row=row,
                running=running,
                gained=gained,
                drafts=tuple(drafts),
                # Each time it is sent, a request gets another key, "ID@number": see `Flight.key`.
            )
            found.setdefault(key.rpartition("@")[0], []).append(one)
    return found
