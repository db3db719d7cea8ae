"""HORA (arXiv 2605.07114): a batch's rollouts go where they are likeliest to be right once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Allocator, Control, Harvest, Job, Observer, View
from gfcr.strategy import Strategy
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class HitUtility(Control, Allocator, Observer):
    """Maximises the batch's sum of P(one of n more rollouts is right), under Beta posteriors.

    P = 1 - prod_{k<n} (b + k) / (a + b + k), with a and b one more than the prompt's right and
    wrong answers so far. It is concave in n, so that the best next rollout is always the best.
    """

    paper: ClassVar[str] = "2605.07114"

    least: Count = 2
    counts: dict[str, tuple[int, int]] = field(
        init=False, default_factory=dict[str, tuple[int, int]]
    )
    """Right and wrong answers, by prompt."""

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        """See `Allocator.allocate`."""
        budget = sum(job.num_samples for job in jobs)
        sizes = [min(self.least, job.num_samples) for job in jobs]
        for _ in range(budget - sum(sizes)):
            gains = [self._gain(job, size) for job, size in zip(jobs, sizes, strict=True)]
            sizes[gains.index(max(gains))] += 1
        return [replace(job, num_samples=n) for job, n in zip(jobs, sizes, strict=True)]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`."""
        for group in harvest.groups:
            right, wrong = self.counts.get(group.prompt.id, (0, 0))
            scored = [r.reward > 0 for r in group.rollouts if r.reward is not None]
            new = (right + sum(scored), wrong + len(scored) - sum(scored))
            self.counts[group.prompt.id] = new

    def _gain(self, job: Job, size: int) -> float:
        """What one more than `size` rollouts adds to the probability of a hit."""
        right, wrong = self.counts.get(job.prompt.id, (0, 0))
        a, b, missed = 1 + right, 1 + wrong, 1.0
        for k in range(size):
            missed *= (b + k) / (a + b + k)
        return missed * a / (a + b + size)


def hora(*, group_size: int = 8, least: int = 2) -> Strategy:
    """GRPO with groups sized by hit utility; that posteriors outlast a batch is our reading."""
    return Strategy(
        name="hora",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"allot": HitUtility(least=least)},
        group_size=group_size,
    )
