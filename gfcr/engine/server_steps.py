"""Records of the engine steps that sampled each request, to which an audit aligns tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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


def by_request(told: Sequence[Sequence[Any]], *, sent: Mapping[str, int]) -> Mapping[str, Steps]:
    """Groups recorded steps by request id, in order.

    What one server sampled after another had taken the request over is left out: nobody has it.

    Args:
        told: what `vllm_inside` recorded, one list per server.
        sent: the number of tokens that a request had when it was sent, by its key of then.
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
            found.setdefault(key, []).append(one)
    whole: dict[str, Steps] = {}
    # Each sending has a key of its own, "ID@number".
    for key in sorted(found, key=lambda key: int(key.rpartition("@")[2])):
        name = key.rpartition("@")[0]
        whole[name] = [*_first(whole.get(name, ()), tokens=sent.get(key, 0)), *found[key]]
    return whole


def _first(steps: Steps, *, tokens: int) -> Iterator[Traced]:
    """Yields the steps that gained the first tokens, the last of them cut."""
    for step in steps:
        if tokens > 0:
            num = min(step.gained, tokens)
            yield replace(step, gained=num, drafts=step.drafts[:num]) if num < step.gained else step
        tokens -= step.gained
