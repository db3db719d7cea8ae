"""Proposals are worth what there is to learn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.control._proposals import ProposalWorth, Tried
from gfcr.stages import View


@final
@dataclass(kw_only=True)
class Learnability(ProposalWorth):
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

    def worth(self, found: Sequence[Tried], *, view: View) -> list[float | None]:
        return [_worth(each) for each in found]


def _worth(each: Tried) -> float | None:
    if each.posed.problem:
        return None if each.posed.excused else 0.0
    if each.solved is None:
        return None
    return 1 - each.solved if 0 < each.solved < 1 else 0.0
