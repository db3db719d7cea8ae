"""What came of a batch, and what is to become of a group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gfcr.types import Group, Rollout

REWARDS: Final = "rewards/"
"""Before the name of a reward in a rollout's notes."""
EPISODE: Final = "episode"
"""Note of a rollout that an environment answered: which episode of its group it is, or is of."""
BATCH_FULL: Final = "batch full"
"""`Rollout.detail` of a trajectory cut short because its batch was full."""


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
    """What parts asked on the side, `Rollout.role` says what for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMore:
    """Adds rollouts to the group; `decide` is called again when they are scored."""

    num_samples: int
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """For the Generate part, in `Job.notes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Rejects the group for `reason` without filtering it (`stale` has a ledger bin of its own)."""

    reason: str
