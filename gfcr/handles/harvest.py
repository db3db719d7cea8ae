"""What a batch has produced, and a Referee's answers about a group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gfcr.types import Group, Rollout

REWARDS: Final = "rewards/"
"""Prefix of a reward's name in a rollout's notes."""
EPISODE: Final = "episode"
"""Note of a rollout that an environment answered; turns of one episode have the same number."""
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
