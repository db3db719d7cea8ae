"""One part selects prompts; two others share out samples and caps among the jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Allocator, Control, Harvest, Job, Observer, Selector, View
from gfcr.strategy import Strategy
from gfcr.types import Prompt
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Shortest(Control, Selector):
    """Looks at twice as many prompts as it takes and puts the longer ones back."""

    put_back: int = field(init=False, default=0)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """See `Selector.select`."""
        found = sorted(view.draw(2 * num), key=lambda p: len(p.tokens))
        view.put_back(found[num:])
        self.put_back = len(found) - num
        return found[:num]

    def metrics(self) -> dict[str, float]:
        """Prompts put back for the last batch."""
        return {"put_back": float(self.put_back)}


@final
@dataclass(kw_only=True)
class MoreForHard(Control, Allocator, Observer):
    """Gives `more` samples to prompts whose last answers were not all right."""

    more: Count = 2
    hard: set[str] = field(init=False, default_factory=set[str])
    given: int = field(init=False, default=0)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        """See `Allocator.allocate`."""
        hard = [job.prompt.id in self.hard for job in jobs]
        self.given += self.more * sum(hard)
        return [
            replace(job, num_samples=job.num_samples + self.more * is_hard)
            for job, is_hard in zip(jobs, hard, strict=True)
        ]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`."""
        for group in harvest.groups:
            missed = any((r.reward or 0) < 1 for r in group.rollouts)
            (self.hard.add if missed else self.hard.discard)(group.prompt.id)

    def metrics(self) -> dict[str, float]:
        """Samples given on top so far."""
        return {"given": float(self.given)}


@final
@dataclass(kw_only=True)
class Capped(Control, Allocator):
    """Caps rollouts of easy looking, short prompts at `tokens`."""

    tokens: Count = 24
    length: Count = 12
    capped: int = field(init=False, default=0)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        """See `Allocator.allocate`."""
        return [self._capped(job) for job in jobs]

    def _capped(self, job: Job) -> Job:
        if len(job.prompt.tokens) > self.length or job.sampling.max_tokens <= self.tokens:
            return job
        self.capped += 1
        return replace(job, sampling=replace(job.sampling, max_tokens=self.tokens))

    def metrics(self) -> dict[str, float]:
        """Jobs capped so far."""
        return {"capped": float(self.capped)}


def allotted(*, group_size: int = 4) -> Strategy:
    """A selector with two allocators."""
    return Strategy(
        name="allotted",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"shortest": Shortest(), "more": MoreForHard(), "capped": Capped()},
        group_size=group_size,
    )
