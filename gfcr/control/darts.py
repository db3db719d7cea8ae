"""Redundant rollouts where lengths vary most; the last ones of a group are pruned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from gfcr.control._rounds import Resizes, multiplied
from gfcr.part import Recipe
from gfcr.stages import Abort, Control, Harvest, Job, Observer, Trajectory, View, Watcher
from gfcr.types import FinishReason, Rollout
from gfcr.values.ranges import Share


@final
@dataclass(kw_only=True)
class Darts(Control, Resizes, Watcher, Observer):
    """Begins M' > M rollouts of a prompt and cuts the tail: M = `group_size` are needed.

    `redundancy` x M x (number of prompts) more rollouts are divided among the prompts of a round in
    proportion to the variance of lengths at each one's last visit (prompts not seen yet: the mean
    of those known), M' <= `most` x M. Of a group's M' - M redundant rollouts the last floor(`prune`
    (M' - M)) in flight are aborted once the others have ended. Follow it with the `dual_end`
    filter, which keeps M of those that ended.

    That redundancy goes by variance and is at most 2 M is the paper's; how it is divided and how
    much of it is pruned is ours.

    Hurts where long rollouts are the right ones: what is pruned never trains. Lengths at the last
    visit are known from the second epoch on.
    """

    paper: ClassVar[str] = "2605.30859"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "ours"

    redundancy: Annotated[float, Interval(ge=0, le=100)] = 0.5
    """Rollouts begun beyond M, for each one trained on."""
    most: Annotated[float, Interval(ge=1, le=100)] = 2.0
    prune: Share = 0.5
    """Share of a group's redundant rollouts that is aborted; 1 keeps the first M to end."""
    variances: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """Prompt id -> variance of rollout lengths at its last visit."""
    begun: float = field(init=False, default=0.0)
    """Mean M' of the last round."""
    pruned: int = field(init=False, default=0)
    _now: int = field(init=False, default=0)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        larger = [name for name, part in strategy.hooks(Resizes).items() if part is not self]
        larger += ["generate"] if multiplied(strategy) else []
        if not larger:
            return None
        return (
            f"{', '.join(larger)} makes groups larger than group_size, and it takes all rollouts "
            "beyond that for redundant. Remove one of them."
        )

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        known = float(np.mean([*self.variances.values()])) if self.variances else 1.0
        fresh = [job for job in jobs if not job.resume]
        extras = allotted(
            np.array([self.variances.get(job.prompt.id, known) for job in fresh], np.float64),
            total=round(self.redundancy * view.group_size * len(fresh)),
            most=int((self.most - 1) * view.group_size + 1e-9),
        )
        extra = {id(job): num for job, num in zip(fresh, extras, strict=True)}
        jobs = [replace(j, num_samples=j.num_samples + extra.get(id(j), 0)) for j in jobs]
        self.begun = float(np.mean([job.num_samples for job in jobs])) if jobs else 0.0
        return jobs

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Abort | None:
        # Those that another part has aborted, or Generate has dropped, are not there to be trained.
        siblings = [each for each in trajectory.siblings if each.finish != FinishReason.ABORTED]
        redundant = len(siblings) - view.group_size
        tail = int(self.prune * redundant + 1e-9) if redundant > 0 else 0
        if not tail or sum(each.finish is None for each in siblings) > tail:
            return None
        self._now += 1
        return Abort(reason="tail")

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.pruned, self._now = self._now, 0
        groups: dict[str, list[Rollout]] = {g.id: [*g.rollouts] for g in harvest.groups}
        for rollout in harvest.aborted:
            # A pruned one is at least as long as it was then.
            groups.get(rollout.group_id, []).append(rollout)
        for group in harvest.groups:
            lengths = [len(r) for r in groups[group.id] if r.origin == "fresh"]
            if len(lengths) > 1:
                self.variances[group.prompt.id] = float(np.var(lengths))

    def metrics(self) -> Mapping[str, float]:
        """Mean rollouts begun of a prompt in the last round, rollouts pruned in the last batch."""
        return {"begun": self.begun, "pruned": float(self.pruned)}


def allotted(weights: NDArray[np.float64], *, total: int, most: int) -> list[int]:
    """Divides `total` in proportion to weights, at most `most` each, by largest remainders."""
    num = len(weights)
    # Without this, what no prompt has room for would be handed out all the same.
    total = min(total, most * num)
    weights = weights if weights.sum() > 0 else np.ones(num)
    shares, open_ = np.zeros(num), np.ones(num, np.bool_)
    while open_.any():
        left = total - most * int((~open_).sum())
        # Without weight left, what is left is divided evenly.
        part = weights * open_ if (weights * open_).sum() > 0 else open_.astype(np.float64)
        shares = np.where(open_, left * part / part.sum(), most)
        over = open_ & (shares > most)
        if not over.any():
            break
        open_ &= ~over
    whole = np.floor(shares + 1e-9).astype(int)
    order = np.argsort(-(shares - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole.tolist()
