"""What servers recorded of the steps that sampled each request: an audit aligns tokens with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One engine step, as one request met it."""

    step: int
    """Unlike that of any other step of the same servers."""
    row: int
    """Place of the request among those that gained tokens in it."""
    running: int
    """How many those were."""
    gained: int
    """Tokens."""
    drafts: tuple[int, ...]
    """That it verified."""


Steps: TypeAlias = Sequence[Traced]


def by_request(told: Sequence[Sequence[Any]]) -> Mapping[str, Steps]:
    """Steps by request id, in order.

    Args:
        told: by server, what `vllm_inside` recorded there.
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
            )
            found.setdefault(key.rpartition("@")[0], []).append(one)
    return found
