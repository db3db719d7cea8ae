"""Gaussian curriculum sampling (of FG-ExPO, arXiv 2605.11403): prompts half of which is right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.strategy import Strategy
from gfcr.types import Prompt
from gfcr.values.ranges import Positive, Share


@final
@dataclass(kw_only=True)
class Frontier(Control, Selector, Observer):
    """Draws from all prompts, with weights exp(-(p - centre)^2 / (2 width^2)).

    p is the success rate of the prompt's last group; one that was never asked is at the centre.
    """

    paper: ClassVar[str] = "2605.11403"

    centre: Share = 0.5
    width: Positive = 0.2
    rates: dict[str, float] = field(init=False, default_factory=dict[str, float])
    known: list[Prompt] = field(init=False, default_factory=list[Prompt])

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """See `Selector.select`."""
        self.known = self.known or view.draw(view.num_prompts)
        rates = np.array([self.rates.get(p.id, self.centre) for p in self.known])
        weights = np.exp(-((rates - self.centre) ** 2) / (2 * self.width**2))
        rng = view.rng("frontier", view.round)
        taken = rng.choice(len(weights), num, replace=False, p=weights / weights.sum())
        return [self.known[i] for i in taken]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`."""
        for group in harvest.groups:
            if len(right := [r.reward > 0 for r in group.rollouts if r.reward is not None]):
                self.rates[group.prompt.id] = sum(right) / len(right)


def gaussian(*, group_size: int = 8, width: float = 0.2) -> Strategy:
    """GRPO on middling prompts, without the paper's adaptive KL; the width is ours."""
    return Strategy(
        name="gaussian",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"frontier": Frontier(width=width)},
        group_size=group_size,
    )
