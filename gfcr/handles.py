"""What parts work with: jobs and plans, the view of the run, sessions and their trajectories.

Import these from `gfcr.stages`, which says who is handed what.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np

from gfcr.types import FinishReason, Floats, Group, Prompt, Rollout, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier says of a completion. `reward=None` is unscorable and `error` says why."""

    reward: float | None
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the reward is made of, by name; a rollout's notes hold them as `rewards/NAME`."""


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


class View(Protocol):
    """What a part may see of the run, and the few things it may ask for."""

    step: int
    """Update the batch is for, from 0."""
    version: int
    """Policy version in the engine at this moment; 0 in an evaluation."""
    round: int
    """How often groups were begun for the batch, so far."""
    target: int
    """Accepted groups that fill the batch."""
    group_size: int
    sampling: Sampling
    room: int
    """Most tokens that a prompt may have, for a rollout to fit the engine's context."""

    @property
    def groups(self) -> Sequence[Group]:
        """Groups completed so far in this batch, accepted and rejected."""
        ...

    @property
    def num_accepted(self) -> int:
        """Groups accepted so far."""
        ...

    @property
    def running(self) -> int:
        """Trajectories in flight."""
        ...

    def draw(self, num: int) -> list[Prompt]:
        """Takes the next prompts of the paired stream; each is used once an epoch.

        In an evaluation those are the held-out ones, in order.
        """
        ...

    def prompt(
        self,
        text: str,
        *,
        answer: str = "",
        id: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Prompt:
        """Makes a prompt, encoded as the task encodes its own: mutated, hinted, invented.

        It may then be selected, opened or trained under like one that was drawn. Without an `id`
        its text and answer name it.
        """
        ...

    def recorded(self, folder: str) -> list[Group]:
        """Groups that another run recorded in its folder, to be recalled like ones of this run.

        Their rollouts are not verified, billed or counted again; a Replay part holds them like its
        own. Each prompt must be, or become, a training prompt of this run.

        Raises:
            PartError: a prompt is held out, or another one under the same id.
        """
        ...

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        """Gives prompts back to the stream: they are drawn next, in this order."""
        ...

    def job(self, prompt: Prompt, *, num_samples: int | None = None) -> Job:
        """A job with the run's group size and sampling."""
        ...

    def rng(self, *key: str | int) -> np.random.Generator:
        """A generator seeded by (experiment seed, step, key): the same in every strategy."""
        ...

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Log-probabilities of tokens under the current policy, see `Engine.score`."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Encodes text that continues a sequence."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes completion tokens."""
        ...


class Trajectory(Protocol):
    """A rollout in the making. Await `sample`; everything else is immediate."""

    tokens: list[int]
    logprobs: list[float]
    mask: list[bool]
    notes: dict[str, float]

    @property
    def prompt(self) -> Prompt:
        """What is answered."""
        ...

    @property
    def finish(self) -> FinishReason | None:
        """How it ended; None while it may go on."""
        ...

    @property
    def siblings(self) -> Sequence["Trajectory"]:
        """Those opened for its job so far, itself and ended ones included, in that order."""
        ...

    def sample(
        self, *, max_tokens: int | None = None, stop: Sequence[int] = ()
    ) -> Awaitable["Sampled"]:
        """Continues by sampling until end-of-sequence, a stop token or the cap.

        `max_tokens` bounds this call; the job's cap bounds the whole trajectory in any case.
        """
        ...

    def append(self, tokens: Sequence[int]) -> None:
        """Appends environment tokens: no log-probability, no loss.

        Tokens that do not fit under the job's cap end the trajectory instead; nothing is appended
        to one that has ended.
        """
        ...

    def fork(self, at: int) -> "Trajectory":
        """Opens a trajectory sharing the first `at` completion tokens; nothing is resampled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """How one `sample` call ended."""

    tokens: tuple[int, ...]
    stopped: bool
    """End-of-sequence or a stop token came, rather than a cap."""
    ended: bool
    """The trajectory can go no further: end-of-sequence, the job's cap, or halted by Control."""


class Scratch(Protocol):
    """What a part may do beside a group's rollouts: ask on the side, call slow functions."""

    view: View

    def aside(
        self, prompt: str | Sequence[int], *, role: str, sampling: Sampling | None = None
    ) -> Trajectory:
        """Opens a trajectory of the policy that is no rollout: a judge's words, a probe, a sketch.

        It is not verified, watched, filtered or trained on; its tokens have a bin of their own,
        `aside:ROLE`, and it is kept with the records.

        Args:
            prompt: a text, encoded as the task encodes its prompts, or tokens: those of a prompt
                with part of a completion behind them continue it.
            role: a word for what it is.
            sampling: its own, cap included; the run's by default.
        """
        ...

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """Waits for all, in order of the arguments."""
        ...

    def verify(self, text: str) -> Awaitable[Verdict]:
        """What the task says of a text as an answer to the job's prompt; counted as a call."""
        ...

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Runs slow work (a tool, a judge) in the pool beside the loop and returns its result."""
        ...


class Session(Scratch, Protocol):
    """What `Generate.run` works with: one job and the trajectories it opens."""

    @property
    def job(self) -> Job:
        """The rollouts to make."""
        ...

    def open(
        self, index: int, *, prompt: Prompt | None = None, train_under: Prompt | None = None
    ) -> Trajectory:
        """Opens sample `index` of the job, continuing `job.resume[index]` where there is one.

        Args:
            index: of the sample.
            prompt: another wording to sample under, from `view.prompt` (a hint, examples); it is
                verified as an answer to the job's prompt all the same.
            train_under: what it is trained as an answer to, by log-probs that are taken again.
        """
        ...


REWARDS: Final = "rewards/"
"""Before the name of a reward in a rollout's notes."""
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
    ones have the `detail` `BATCH_FULL`; with another one, a Watcher aborted them."""
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
