"""AR3PO's reuse: where nothing was right, an earlier right rollout stands in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.replay._successes import Solved
from gfcr.stages import View
from gfcr.types import Group, Rollout
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Rescue(Solved):
    """Recalls `num` right rollouts of the prompt into a group that has none of its own.

    So a prompt that was solved once goes on teaching when it is not solved again: a group all wrong
    would have no gradient. Recalled rollouts keep the log-probs they were sampled with.

    Needs prompts that come back. Hurts where the policy has moved on: what is taught then is an
    old way to the answer.
    """

    paper: ClassVar[str] = "2509.25808"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "S"

    num: Count = 1

    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        rewards = [r.reward for r in group.rollouts if r.reward is not None]
        # Without a reward nobody knows that the group is all wrong.
        if not rewards or max(rewards) >= self.threshold:
            return ()
        return self.hand_on(self.drawn(group.prompt.id, num=self.num, view=view))
