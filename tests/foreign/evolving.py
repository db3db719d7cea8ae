"""A curriculum that makes prompts: what was solved is asked again in a longer form."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.strategy import Strategy
from gfcr.types import Prompt
from gfcr.values.ranges import SomeShare


@final
@dataclass(kw_only=True)
class Evolve(Control, Selector, Observer):
    """Asks `1+` in front of sums that most rollouts got right, up to a `share` of the prompts."""

    share: SomeShare = 0.5
    solved: SomeShare = 0.5
    """Mean reward from which a prompt has a longer child."""
    made: list[Prompt] = field(init=False, default_factory=list[Prompt])
    asked: int = field(init=False, default=0)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """See `Selector.select`."""
        own = self.made[: int(num * self.share)]
        self.made = self.made[len(own) :]
        self.asked += len(own)
        return [*own, *view.draw(num - len(own))]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`."""
        for group in harvest.groups:
            prompt, rewards = group.prompt, [r.reward or 0.0 for r in group.rollouts]
            if sum(rewards) >= self.solved * len(rewards) and prompt.answer.lstrip("-").isdigit():
                answer = str(int(prompt.answer) + 1)
                self.made.append(view.prompt(f"1+{prompt.text}", answer=answer, meta=prompt.meta))

    def metrics(self) -> dict[str, float]:
        """Made prompts asked so far, and those that wait."""
        return {"asked": float(self.asked), "waiting": float(len(self.made))}


def evolving(*, group_size: int = 4, share: float = 0.5, solved: float = 0.5) -> Strategy:
    """An evolving curriculum."""
    return Strategy(
        name="evolving",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"evolve": Evolve(share=share, solved=solved)},
        group_size=group_size,
    )
