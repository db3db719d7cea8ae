"""Proposals are worth what there is to learn from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.control._proposals import Tally, Tried, tried
from gfcr.handles import PROPOSE, role_of
from gfcr.stages import Control, Evaluator, Harvest, Observer, Scratch, View
from gfcr.types import Group
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Learnability(Control, Evaluator, Observer):
    """Rewards a proposal by how often the policy solves its problem.

        r = 1 - s for 0 < s < 1, else 0;  s = mean reward of `samples` answers to it

    A proposal that is no problem is worth 0; what is not its fault (the sandbox failed, the problem
    is a held-out one) is not judged. Answers are asked on the side by the policy that proposed: the
    reward is there in the same batch, and no proposal has to be learned from off the policy. They
    are not trained on (bin `aside:solve`): a problem is when a Replay part such as `proposals` has
    it asked. Groups that solve are left as they are.

    Hurts in tokens: `samples` answers a proposal; and while most proposals are invalid or most
    problems beyond the policy, when nearly all rewards are 0.
    """

    paper: ClassVar[str] = "2505.03335"
    cell: ClassVar[str] = "R7.4"
    origin: ClassVar[str] = "P"

    samples: Count = 8
    tally: Tally = field(init=False, default_factory=Tally)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        if role_of(group.prompt) != PROPOSE:
            return group
        waits = (tried(rollout, scratch, samples=self.samples) for rollout in group.rollouts)
        found: list[Tried] = await scratch.gather(*waits)
        self.tally.add(found)
        return group.judged([_worth(each) for each in found])

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.tally.end()

    def metrics(self) -> Mapping[str, float]:
        """See `Tally`: what the last batch's proposals became."""
        return self.tally.last


def _worth(each: Tried) -> float | None:
    if each.posed.problem:
        return None if each.posed.excused else 0.0
    if each.solved is None:
        return None
    return 1 - each.solved if 0 < each.solved < 1 else 0.0
