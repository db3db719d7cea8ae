"""What a batch has produced, and the answers of Referees and Watchers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gfcr.types import Group, Rollout
from gfcr.values.notes import STATE

BATCH_FULL: Final = "batch full"
"""`Rollout.detail` of a trajectory cut short because its batch was full."""


def by_state(rollouts: Sequence[Rollout], *, note: str = STATE) -> list[list[int]]:
    """Returns the rollouts with equal notes, by index: such as the turns from equal states.

    A list for each value, in the order met; a rollout without the note is in none.
    """
    found: dict[object, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        if note in rollout.notes:
            found.setdefault(rollout.notes[note], []).append(index)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """All that one batch produced, shown to memories before the update."""

    step: int
    groups: tuple[Group, ...]
    """Completed groups, accepted and rejected."""
    aborted: tuple[Rollout, ...]
    """Rollouts of groups cut short, finished ones included: resumable as `Job.resume`. Unfinished
    ones have the `detail` `BATCH_FULL`; with another one, a Watcher or Generate aborted them."""
    asides: tuple[Rollout, ...] = ()
    """Rollouts that parts asked for on the side; `Rollout.role` says for what purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMore:
    """Adds rollouts to the group; `decide` is called again when they are scored."""

    num_samples: int
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Notes for the Generate part, which it finds in `Job.notes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Rejects the group for `reason` without filtering it (`stale` has a ledger bin of its own)."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Ends the trajectory as a complete rollout, `finish=halted`."""

    reason: str
    """`Rollout.detail` is the part's address and this, such as `controls.stop: loop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Cuts the trajectory; it stays out of its group and its tokens count as aborted."""

    reason: str
    """`Rollout.detail` is the part's address and this, such as `controls.stop: loop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Changes how many more tokens the running request may sample, within its rollout's cap."""

    max_tokens: int
