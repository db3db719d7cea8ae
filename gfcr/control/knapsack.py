"""Divides a batch's rollouts among its prompts by what each is expected to teach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from gfcr.control._bounds import outside
from gfcr.control._division import divide
from gfcr.control._outcomes import outcomes
from gfcr.control._rounds import Resizes
from gfcr.errors import ConfigError
from gfcr.part import Recipe
from gfcr.stages import Control, Harvest, Job, Observer, View
from gfcr.values.ranges import Count, Finite, NonNegative


@final
@dataclass(kw_only=True)
class Knapsack(Control, Resizes, Observer):
    """Divides the uniform budget of the prompts it knows so that the sum of their values is most.

        value(N, p) = (1 - p^N - (1-p)^N) * p (1-p)^2,   low <= N <= high, sum N = uniform budget

    The first factor is the chance of a group with signal, the second what an update may gain there,
    most at p = 1/3. p is the success rate of the prompt's last `visits`, as (right + smooth) /
    (scored + 2 smooth), so that a prompt never solved is hard rather than impossible. Prompts not
    visited yet keep the group size; so do groups that are resumed.

    Our own: `visits`, `smooth`, what unvisited prompts get.

    Needs prompts that come back: in the first epoch all is uniform. Hurts where the rates are stale
    (one visit, long epochs): a prompt that became easy still gets most of the batch.
    """

    paper: ClassVar[str] = "2509.25849"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "S"

    low: Count = 2
    """Rollouts that every prompt gets, saturated ones too."""
    high: Count = 93
    visits: Count = 1
    smooth: NonNegative = 0.5
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    seen: dict[str, list[tuple[int, int]]] = field(
        init=False, default_factory=dict[str, list[tuple[int, int]]]
    )
    """Prompt id -> right and scored rollouts of its last visits."""
    given: list[int] = field(init=False, default_factory=list[int])
    """Rollouts that each known prompt was given last."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"knapsack.low={self.low} exceeds knapsack.high={self.high}: swap.")

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return outside(strategy, low=self.low, high=self.high)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        known = [i for i, job in enumerate(jobs) if job.prompt.id in self.seen and not job.resume]
        self.given = self._divide([jobs[i] for i in known], view=view) if known else []
        shares = dict(zip(known, self.given, strict=True))
        return [
            replace(job, num_samples=shares.get(i, job.num_samples)) for i, job in enumerate(jobs)
        ]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            right, scored = outcomes(group, threshold=self.threshold)
            if scored:
                visits = [*self.seen.get(group.prompt.id, []), (right, scored)]
                self.seen[group.prompt.id] = visits[-self.visits :]

    def metrics(self) -> Mapping[str, float]:
        """Prompts known among those last begun; the least, the most and all they were given."""
        given = self.given or [0]
        return {
            "known": float(len(self.given)),
            "least": float(min(given)),
            "most": float(max(given)),
            "total": float(sum(given)),
        }

    def rate(self, prompt_id: str) -> float:
        """Success rate that a visited prompt is taken to have."""
        right, scored = map(sum, zip(*self.seen[prompt_id], strict=True))
        return (right + self.smooth) / (scored + 2 * self.smooth)

    def _divide(self, jobs: Sequence[Job], *, view: View) -> list[int]:
        rates_P = np.array([self.rate(job.prompt.id) for job in jobs])
        values_PN = value(np.arange(self.low, self.high + 1)[None], rates_P[:, None])
        # Known prompts divide their own share alone: a batch costs what a uniform one does.
        return divide(values_PN, low=self.low, total=view.group_size * len(jobs))


def value(num: NDArray[np.int64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the worth of `num` rollouts of a prompt with a success rate; concave in `num`."""
    signal = 1 - rate**num - (1 - rate) ** num
    return signal * rate * (1 - rate) ** 2
