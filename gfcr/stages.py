"""The whole extension contract: four stages, and the hooks a part may answer.

A part belongs to one stage (where it lives, how it is listed) and answers events. Its stage says
the one method it must have; hooks are added by inheriting them, and one that is not written fails
when the part is made. The pipeline asks the parts with a hook in the order the strategy names them.

    event                        who answers
    groups are missing           Planner.plan          how many to begin, which earlier ones go on
                                 Selector.select       which prompts (one part, or the stream)
                                 Allocator.allocate    samples, caps, priorities, draft budgets
    a job starts                 Generate.run          requests, forks, tools -> trajectories
    tokens appended              Watcher.watch         halt, abort, cap a trajectory in flight
    a group is complete, scored  Evaluator.evaluate    judges, votes, probes -> rewards, scores
    it is judged                 Referee.decide        sample more, retire
                                 Recaller.recall       whole rollouts to join from earlier updates
                                 Filter.apply          signals, rejections, advantages
    the batch is full            BatchMap.map_batch    signals that need all groups
                                 Replay.store          remember; Observer.observe: learn
    the policy was updated       AfterUpdate           learn from the trainer's metrics
    the engine has its weights   Follower.follow       keep an average, measure how far it went
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from gfcr.handles import (
    BATCH_FULL,
    EPISODE,
    Abort,
    Cap,
    Halt,
    Harvest,
    Job,
    Plan,
    Retire,
    Sampled,
    SampleMore,
    Scratch,
    Session,
    Trajectory,
    View,
)
from gfcr.part import Part
from gfcr.types import Group, Prompt, Rollout

if TYPE_CHECKING:
    import torch

__all__ = [
    "BATCH_FULL",
    "EPISODE",
    "Abort",
    "AfterUpdate",
    "Allocator",
    "BatchMap",
    "Cap",
    "Control",
    "Evaluator",
    "Filter",
    "Follower",
    "Generate",
    "Halt",
    "Harvest",
    "Job",
    "Observer",
    "Plan",
    "Planner",
    "Recaller",
    "Referee",
    "Replay",
    "Retire",
    "SampleMore",
    "Sampled",
    "Scratch",
    "Selector",
    "Session",
    "Trajectory",
    "View",
    "Watcher",
]

# ---------------------------------------------------------------- Generate


class Generate(Part):
    """Proposes trajectories: topology, guidance, sampling.

    Example:
        async def run(self, session: Session) -> None:
            opened = [session.open(i) for i in range(session.job.num_samples)]
            await session.gather(*(t.sample() for t in opened))
    """

    resumes: ClassVar[bool] = False
    """Whether `run` goes on from `job.resume`: else a checkpoint's groups in flight start over."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Names of the notes of a job that it obeys."""

    def rollouts(self, num_samples: int) -> int:
        """Most rollouts that a job of so many samples becomes."""
        return num_samples

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        """Refuses a model whose tokens the part cannot work with, before anything starts.

        Raises:
            ConfigError: it cannot, naming the key.
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

    gives_advantages: ClassVar[bool | None] = None
    """Whether it is an advantage map; None is not known. A strategy without one is refused."""

    @abstractmethod
    def apply(self, group: Group, *, view: View) -> Group:
        """Returns the group with signals, weights, rejections or advantages added."""


# ---------------------------------------------------------------- hooks
class Planner(ABC):
    """Says how many groups are begun, and adds jobs for groups that go on from earlier."""

    @abstractmethod
    def plan(self, plan: Plan, *, view: View) -> Plan:
        """Returns the plan changed, after earlier parts' plans.

        Asked when a batch is begun, with `num_groups == target == prompts per update`, and from
        then on whenever groups are missing beyond those in flight, with `num_groups == 0`: left so,
        those in flight are waited for, and without any the batch is trained short; raised, more are
        begun at once. To do so round by round, wait until `plan.in_flight` is 0.

        Raises:
            BatchCannotFill: the part's bound on refilling is spent.
        """


class Selector(ABC):
    """Chooses prompts. A strategy has one at most; without one they come as the stream has them."""

    @abstractmethod
    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """Returns `num` prompts, from `view.draw`; candidates not taken may be put back."""


class Allocator(ABC):
    """Divides compute among the jobs to begin: samples, caps, priorities and draft budgets."""

    @abstractmethod
    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        """Returns the jobs changed, each for its prompt, same order and number.

        Those that go on from earlier groups are among them.
        """


class Watcher(ABC):
    """Reacts inside decoding."""

    @abstractmethod
    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Halt | Abort | Cap | None:
        """Called after each engine step that appended the last `new` tokens."""


class Evaluator(ABC):
    """Scores a complete group beside decoding: judges, votes, probes, process rewards.

    Example:
        async def evaluate(self, group: Group, scratch: Scratch) -> Group:
            votes = await scratch.gather(*(self._vote(r, scratch) for r in group.rollouts))
            return group.judged(votes)
    """

    gives_scores: ClassVar[tuple[str, ...]] = ()
    """Names of the scores that it adds to each rollout."""

    @abstractmethod
    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        """Returns the group with rewards (`judged`) or scores (`with_scores`) added.

        Called when its rollouts are verified, and again when more have joined. What it raises makes
        them unscorable. Await only what `scratch` gives.
        """


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


class Observer(ABC):
    """Learns from each batch (pass rates, lengths, costs)."""

    @abstractmethod
    def observe(self, harvest: Harvest, *, view: View) -> None:
        """Called once a batch, after the filters, before the trainer's update."""


class AfterUpdate(ABC):
    """Learns from each update of the policy (learning progress, divergence, loss)."""

    @abstractmethod
    def after_update(self, metrics: Mapping[str, float], *, view: View) -> None:
        """Called with the trainer's own metrics, by name: `loss`, `grad_norm`, `entropy`, `kl`...

        `view.step` is that of the next batch; the engine still has the policy before the update.
        """


class Follower(ABC):
    """Sees the policy's weights (to average them, or to measure how far they went)."""

    @abstractmethod
    def follow(self, weights: "Mapping[str, torch.Tensor]", *, version: int) -> None:
        """Called when the engine has got the policy after `version` updates, first and last too.

        By checkpoint name, adapters merged; the trainer goes on to change the tensors, so copy what
        is to be kept. A resumed run begins with the version it ended with. `gfcr check` has none.
        """


# ---------------------------------------------------------------- Control, Replay


class Control(Part):
    """Allocates compute and decides: `class Oversample(Control, Planner)`, with a hook or more."""

    def __init_subclass__(cls) -> None:
        """Refuses a Control that would never be asked anything."""
        first = (Planner, Selector, Allocator, Watcher, Evaluator, Referee)
        hooks = (*first, Observer, AfterUpdate, Follower)
        if not issubclass(cls, hooks):
            names = ", ".join(h.__name__ for h in hooks)
            raise TypeError(f"{cls.__name__} answers no event: inherit at least one of {names}.")


class Replay(Part):
    """Keeps artifacts across updates and gives them back.

    Giving back is by hook: `Recaller` (rollouts), `Planner` (groups cut), `Selector` (prompts).
    """

    def __init_subclass__(cls) -> None:
        """Refuses a Replay that stores and never gives back."""
        if not issubclass(cls, (Recaller, Planner, Selector)):
            raise TypeError(
                f"{cls.__name__} stores but never gives back: inherit Recaller, Planner or "
                "Selector."
            )

    @abstractmethod
    def store(self, harvest: Harvest, *, view: View) -> None:
        """Called once a batch with all it produced, before the trainer's update."""

    @abstractmethod
    def holds(self) -> Iterable[str]:
        """Ids of the rollouts in memory, so that the ledger can count them as buffered."""
