"""The whole extension contract: four stages, and the hooks a part may answer.

A part belongs to one stage (where it lives, how it is listed) and answers events. Its stage says
the one method it must have; hooks are added by inheriting them, and an inherited hook that is not
written fails when the part is made, not in the middle of a run. The pipeline asks only the parts
that have a hook, in the order the strategy names them.

    event                        who answers
    a round is planned           Planner.plan          which prompts, how many samples, what caps
    a job starts                 Generate.run          requests, forks, tools -> trajectories
    tokens appended              Watcher.watch         halt, abort, cap a trajectory in flight
    a group is complete, scored  Referee.decide        sample more, retire
                                 Recaller.recall       whole rollouts to join from earlier updates
                                 Filter.apply          signals, rejections, advantages
    the batch is full            BatchMap.map_batch    signals that need all groups
                                 Replay.store          remember; Observer.observe: learn
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from gfcr.part import Part
from gfcr.types import Floats, Group, Prompt, Rollout, Sampling

# ---------------------------------------------------------------- what planning speaks of


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Rollouts to make for one prompt."""

    prompt: Prompt
    num_samples: int
    sampling: Sampling
    resume: tuple[Rollout, ...] = ()
    """Partial rollouts to continue first, instead of starting as many samples afresh."""
    priority: int = 0
    draft_budget: int | None = None
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Copied to the group's `values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One round of generation. What `jobs` lack towards `num_groups` is drawn from the task."""

    jobs: tuple[Job, ...] = ()
    num_groups: int
    """Groups to start in this round; 0 ends the batch with what it has."""
    target: int
    """Accepted groups that fill the batch. Read in the first round."""

    @property
    def missing(self) -> int:
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
    """Policy version now in the engine."""
    round: int
    """Generation round within the batch, from 0."""
    target: int
    """Accepted groups that fill the batch."""
    group_size: int
    sampling: Sampling
    groups: Sequence[Group]
    """Groups completed so far in this batch, accepted and rejected."""

    @property
    def num_accepted(self) -> int:
        """Groups accepted so far."""
        ...

    @property
    def running(self) -> int:
        """Trajectories in flight."""
        ...

    def draw(self, num: int) -> list[Prompt]:
        """Takes the next prompts of the paired stream; each is used once an epoch."""
        ...

    def job(self, prompt: Prompt, *, num_samples: int | None = None) -> Job:
        """A job with the run's group size and sampling."""
        ...

    def fill(self, plan: Plan) -> Plan:
        """Draws prompts for the groups the plan still misses."""
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


# ---------------------------------------------------------------- Generate


class Trajectory(Protocol):
    """A rollout in the making. Await `sample`; everything else is immediate."""

    prompt: Prompt
    tokens: list[int]
    logprobs: list[float]
    mask: list[bool]
    notes: dict[str, float]

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


class Session(Protocol):
    """What `Generate.run` works with: one job and the trajectories it opens."""

    job: Job
    view: View

    def open(self, index: int) -> Trajectory:
        """Opens sample `index` of the job, continuing `job.resume[index]` where there is one."""
        ...

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """Waits for all, in order of the arguments."""
        ...

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Runs slow work (a tool, a judge) in the pool beside the loop and returns its result."""
        ...


class Generate(Part):
    """Proposes trajectories: topology, guidance, sampling.

    Example:
        async def run(self, session: Session) -> None:
            opened = [session.open(i) for i in range(session.job.num_samples)]
            await session.gather(*(t.sample() for t in opened))
    """

    @abstractmethod
    async def run(self, session: Session) -> None:
        """Opens trajectories and samples them; each one opened becomes a rollout on return.

        Await only what the session and its trajectories give. Code before the first await runs at
        once, so that all requests of a round reach the engine together.
        """


# ---------------------------------------------------------------- Filter


class Filter(Part):
    """Measures: gates, scores, maps to advantages. Annotates groups, never deletes.

    Example:
        def apply(self, group: Group, *, view: View) -> Group:
            return group.reject("zero_variance") if group.rewards_N.std() == 0 else group
    """

    @abstractmethod
    def apply(self, group: Group, *, view: View) -> Group:
        """Returns the group with signals, weights, rejections or advantages added."""


# ---------------------------------------------------------------- hooks


class Planner(ABC):
    """Chooses prompts, group sizes, caps, priorities and draft budgets of a round."""

    begun_first: ClassVar[bool] = False
    """True plans before the others: work already begun leaves them fewer prompts to draw."""

    @abstractmethod
    def plan(self, plan: Plan, *, view: View) -> Plan:
        """Returns the plan changed. Called once a round, after earlier parts' plans.

        Round 0 comes with `num_groups == target == prompts per update` and no jobs. Later rounds
        come when nothing is in flight and groups are still missing, with `num_groups == 0`: leave
        it and the batch is trained short; raise it and the batch is refilled.

        Raises:
            BatchCannotFill: the part's bound on refilling is spent.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Ends the trajectory as a complete rollout, `finish=halted`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Cuts the trajectory; it stays out of its group and its tokens count as aborted."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Changes how many more tokens the running request may sample."""

    max_tokens: int


class Watcher(ABC):
    """Reacts inside decoding."""

    @abstractmethod
    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Halt | Abort | Cap | None:
        """Called after each engine step that appended the last `new` tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMore:
    """Adds rollouts to the group; `decide` is called again when they are scored."""

    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Rejects the group for `reason` without filtering it (`stale` has a ledger bin of its own)."""

    reason: str


class Referee(ABC):
    """Decides what happens to a complete, scored group before it is filtered."""

    @abstractmethod
    def decide(self, group: Group, *, view: View) -> SampleMore | Retire | None:
        """None lets the group go on. The first referee that answers is obeyed."""


class Recaller(ABC):
    """Brings whole rollouts of earlier updates into a fresh group."""

    @abstractmethod
    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        """Rollouts of the same prompt to join, with their log-probs and policy versions."""


class BatchMap(ABC):
    """Builds signals that need all accepted groups (global normalisation, token budgets)."""

    @abstractmethod
    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        """Returns the accepted groups annotated, same order and number."""


BATCH_FULL: Final = "batch full"
"""`Rollout.detail` of a trajectory cut short because its batch was full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """All that one batch produced, shown to memories before the update."""

    step: int
    groups: tuple[Group, ...]
    """Completed groups, accepted and rejected."""
    aborted: tuple[Rollout, ...]
    """Rollouts of groups cut short when the batch filled, finished ones included: resumable as
    `Job.resume`, where finished ones are taken as they are. Unfinished ones have the `detail`
    `BATCH_FULL`; with another one, a Watcher aborted them."""


class Observer(ABC):
    """Learns from each batch (pass rates, lengths, costs)."""

    @abstractmethod
    def observe(self, harvest: Harvest, *, view: View) -> None:
        """Called once a batch, after the filters, before the trainer's update."""


# ---------------------------------------------------------------- Control, Replay


class Control(Part):
    """Allocates compute and decides. Inherit it with at least one hook.

    Example:
        class Oversample(Control, Planner): ...
    """

    def __init_subclass__(cls) -> None:
        """Refuses a Control that would never be asked anything."""
        hooks = (Planner, Watcher, Referee, Observer)
        if not issubclass(cls, hooks):
            names = ", ".join(h.__name__ for h in hooks)
            raise TypeError(f"{cls.__name__} answers no event: inherit at least one of {names}.")


class Replay(Part):
    """Keeps artifacts across updates and gives them back.

    Giving back is by hook: `Recaller` for whole rollouts, `Planner` for prompts and prefixes.
    """

    def __init_subclass__(cls) -> None:
        """Refuses a Replay that stores and never gives back."""
        if not issubclass(cls, (Recaller, Planner)):
            raise TypeError(
                f"{cls.__name__} stores but never gives back: inherit Recaller or Planner."
            )

    @abstractmethod
    def store(self, harvest: Harvest, *, view: View) -> None:
        """Called once a batch with all it produced, before the trainer's update."""

    @abstractmethod
    def holds(self) -> Iterable[str]:
        """Ids of the rollouts in memory, so that the ledger can count them as buffered."""
