"""Begins where an earlier right answer to the prompt was known to be on its way."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, final

from gfcr.stages import Generate, Harvest, Observer, Session, Trajectory, View
from gfcr.types import Rollout
from gfcr.values.memory import remember
from gfcr.values.ranges import Count, Finite


@final
@dataclass(kw_only=True)
class VerifiedPrefix(Generate, Observer):
    """Samples like `sample`, and where a job asks for hints, behind a right answer's beginning.

    That answer is one of the `capacity` newest that this run gave to the prompt, drawn at random.
    The note `hint` of a job says the share of its tokens that is taken over: they are attended to
    and not trained, as environment tokens; what is sampled behind them is. The control `scaffold`
    asks, for prompts that no plain rollout answered this time. So verified segments are recomposed
    with new ends: a lost way is found again from where it was lost.

    Prompts that were never solved are sampled plainly. Needs prompts that come back. Hurts where a
    long prefix leaves nothing to learn.
    """

    paper: ClassVar[str] = "2506.17211"
    cell: ClassVar[str] = "R7.3"
    origin: ClassVar[str] = "ours"
    resumes: ClassVar[bool] = True
    tokenwise: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("hint",)

    capacity: Count = 4
    """Right answers kept of a prompt."""
    max_prompts: Count = 4096
    """Prompts kept; the one solved longest ago is forgotten first."""
    threshold: Finite = 0.5
    """Reward from which an answer is right."""
    solved: dict[str, deque[Rollout]] = field(init=False, default_factory=dict[str, deque[Rollout]])
    """Prompt id -> its right answers, oldest first; prompts in order of their last solution."""
    restarted: int = field(init=False, default=0)
    """Rollouts begun behind a prefix so far."""

    async def run(self, session: Session) -> None:
        indices = range(session.job.num_samples)
        await session.gather(*(self._open(i, session=session).sample() for i in indices))

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for rollout in (r for g in harvest.groups for r in g.rollouts):
            # Answers behind a prefix share its beginning, and would fill the memory with one way.
            plain = rollout.origin == "fresh" and rollout.mask_T.all()
            if plain and rollout.reward is not None and rollout.reward >= self.threshold:
                remember(
                    self.solved,
                    key=rollout.prompt.id,
                    items=(rollout,),
                    capacity=self.capacity,
                    max_keys=self.max_prompts,
                )

    def metrics(self) -> Mapping[str, float]:
        """Rollouts begun behind a prefix so far, and prompts with a right answer in memory."""
        return {"restarted": float(self.restarted), "solved_prompts": float(len(self.solved))}

    def _open(self, index: int, *, session: Session) -> Trajectory:
        job = session.job
        trajectory = session.open(index)
        share = float(job.notes.get("hint", 0.0))
        if not share or index < len(job.resume):
            return trajectory
        trajectory.notes["hint"] = share
        if known := list(self.solved.get(job.prompt.id, ())):
            rng = session.view.rng("verified_prefix", job.prompt.id, index)
            tokens = known[int(rng.integers(len(known)))].tokens_T
            # One token at least is left to sample, also under a cap that has fallen since.
            most = min(len(tokens), job.sampling.max_tokens) - 1
            prefix = tokens[: min(ceil(share * len(tokens) - 1e-9), most)]
            trajectory.append(prefix.tolist())
            self.restarted += bool(len(prefix))
        return trajectory
