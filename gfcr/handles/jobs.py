"""The work to do: jobs, which are rollouts to make, and the plan of what to begin."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gfcr.types import Prompt, Rollout, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Rollouts to make for one prompt."""

    prompt: Prompt
    num_samples: int
    sampling: Sampling
    resume: tuple[Rollout, ...] = ()
    """Rollouts to continue in place of new samples; finished ones stay as they are. Those of whole
    groups are replayed: they join with `origin="replay"`, and the Generate part makes the rest."""
    priority: int = 0
    draft_budget: int | None = None
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Notes for the Generate part, copied to the group's `values`."""
    step: int = 0
    """Number of its batch, the update unless batches were dropped; -1 in an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is begun next; the Selector chooses prompts for the groups that `jobs` leaves open."""

    jobs: tuple[Job, ...] = ()
    num_groups: int
    """The number of groups to begin now, those of `jobs` included."""
    target: int
    """The number of accepted groups that fill the batch; read when the batch is begun."""
    in_flight: int = 0
    """The number of groups that are being made."""
    missing: int = 0
    """How many accepted groups the batch lacks if all those in flight are accepted."""

    @property
    def unfilled(self) -> int:
        """The number of groups without a job yet."""
        return max(0, self.num_groups - len(self.jobs))

    def add(self, jobs: Iterable[Job]) -> "Plan":
        """Returns the plan with jobs appended."""
        return replace(self, jobs=self.jobs + tuple(jobs))
