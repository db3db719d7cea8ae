"""GDPO: each of several rewards is normalised within the group by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.filter._standard import standardised
from gfcr.stages import BatchMap, Filter, View
from gfcr.types import Floats, Group, Rollout, Signal
from gfcr.values.notes import MEASURED
from gfcr.values.ranges import Finite

REWARD = "reward"
"""Name of the reward that the rollout was given."""
NAMED = "rewards/"
"""What the notes of named rewards begin with."""


@final
@dataclass(kw_only=True)
class Gdpo(Filter, BatchMap):
    """A = sum of w_k (x_k - mean) / (std + epsilon) over rewards k, then normalised over the batch.

    `weights` names what is summed: `reward`, the experiment's named rewards (`rewards/NAME`), and
    scores that filters before this one or Evaluators gave (one per token counts as its mean). Left
    empty: the named rewards, or `reward` where there are none, and every score, each with weight 1;
    what the verifier measured beside its reward, such as time-outs, is not among them.
    A rollout that lacks one of them is compared by the others. A single reward is GRPO's own: it
    is not normalised over the batch.

    Normalising each by itself keeps apart what a sum would not: with two rewards of 0 or 1, (0, 1)
    and (0, 2) of a group's sums give GRPO the same advantages. Hurts when a reward is nearly
    constant within groups: the deviation it is divided by makes a rare step as loud as the others.
    """

    paper: ClassVar[str] = "2601.05242"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    weights: Mapping[str, Finite] = field(default_factory=dict[str, float])
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    found: dict[int, tuple[str, ...]] = field(
        init=False, default_factory=dict[int, tuple[str, ...]]
    )
    """Names found in the groups of each batch in the making, by its update."""
    summed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.weights and not any(self.weights.values()):
            raise ConfigError(
                f"gdpo.weights={dict(self.weights)} weigh nothing: give one that is not 0."
            )

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        kept = group.kept_N
        pairs = zip(group.rollouts, group.signals, strict=True)
        given = [self._given(r, s) for (r, s), k in zip(pairs, kept, strict=True) if k]
        names = {name for values in given for name in values}
        self.found[view.step] = tuple(sorted({*self.found.get(view.step, ()), *names}))
        total = np.zeros(len(given), np.float64)
        for name, weight in (self.weights or _every(names)).items():
            total += weight * self._normalised([values.get(name, np.nan) for values in given])
        filled = iter(total.tolist())
        return group.with_advantages([next(filled) if k else None for k in kept])

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        # They are taken out, or each checkpoint would hold the names of all batches before it.
        seen = self.found.pop(view.step, ())
        unknown = sorted(set(self.weights) - set(seen)) if groups else []
        if unknown:
            raise ConfigError(
                f"gdpo.weights names {', '.join(unknown)}, which no rollout has. Known are: "
                f"{', '.join(seen)}. Name one of these, or have a filter or Evaluator give it."
            )
        self.summed = len(self.weights or _every({*seen}))
        if self.summed < 2:
            return groups
        return standardised(groups, per="rollouts", epsilon=self.epsilon)[0]

    def metrics(self) -> Mapping[str, float]:
        """Rewards summed in the last batch."""
        return {"summed": float(self.summed)}

    def _given(self, rollout: Rollout, signal: Signal) -> dict[str, float]:
        rewards = {REWARD: float("nan") if signal.reward is None else signal.reward}
        named = {name: value for name, value in rollout.notes.items() if name.startswith(NAMED)}
        if MEASURED in rollout.notes:  # as whether a program timed out: no reward unless asked for
            named = {name: value for name, value in named.items() if name in self.weights}
        return {**rewards, **named, **{name: _mean(score) for name, score in signal.scores.items()}}

    def _normalised(self, values: Sequence[float]) -> np.ndarray:
        """Values that are missing are neither counted nor moved."""
        found = np.array(values, np.float64)
        here = ~np.isnan(found)
        # The deviation of one value, or of equal ones, is noise that a division would make loud.
        if here.sum() < 2 or np.ptp(found[here]) <= 1e-6:
            return np.zeros(len(found))
        scaled = (found - found[here].mean()) / (found[here].std(ddof=1) + self.epsilon)
        return np.where(here, scaled, 0.0)


def _mean(score: float | Floats) -> float:
    return float(np.mean(score)) if np.size(score) else 0.0


def _every(names: set[str]) -> dict[str, float]:
    are_named = any(name.startswith(NAMED) for name in names)
    return dict.fromkeys(sorted(names - ({REWARD} if are_named else set())), 1.0)
