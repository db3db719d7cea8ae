"""What is to be rolled out."""

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
    """Rollouts to go on from in the place of new samples; finished ones stay as they are."""
    priority: int = 0
    draft_budget: int | None = None
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Copied to the group's `values`."""
    step: int = 0
    """Update it is for; -1 in an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is begun next. For the groups that `jobs` lack, the Selector chooses prompts."""

    jobs: tuple[Job, ...] = ()
    num_groups: int
    """Groups to begin now, those of `jobs` included."""
    target: int
    """Accepted groups that fill the batch. Read when the batch is begun."""
    in_flight: int = 0
    """Groups in the making."""
    missing: int = 0
    """Accepted groups that the batch lacks, should all in flight be accepted."""

    @property
    def unfilled(self) -> int:
        """Groups not yet given a job."""
        return max(0, self.num_groups - len(self.jobs))

    def add(self, jobs: Iterable[Job]) -> "Plan":
        """Returns the plan with jobs appended."""
        return replace(self, jobs=self.jobs + tuple(jobs))
