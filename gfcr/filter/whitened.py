"""Whitened advantages: mean 0 and deviation 1 over the batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.filter._standard import Per, standardised
from gfcr.stages import BatchMap, Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class Whitened(Filter, BatchMap):
    """A <- (A - mean) / (deviation + epsilon), over the batch's kept rollouts or their tokens.

    For advantages that a map before it gave, one number a rollout or one a token; PPO's usual last
    step, and VinePPO's. It makes the size of an update independent of that of the rewards.

    Hurts where most of a batch says nothing: subtracting the mean pushes those tokens too, the
    other way.
    """

    paper: ClassVar[str] = "2410.01679"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    per: Per = "tokens"
    """What mean and deviation are taken over."""
    epsilon: Annotated[float, Interval(gt=0, le=1)] = 1e-8
    deviation: float = field(init=False, default=0.0)

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`: the batch decides."""
        return group

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        made, scale = standardised(groups, per=self.per, epsilon=self.epsilon)
        self.deviation = scale.deviation
        return made

    def metrics(self) -> Mapping[str, float]:
        """Deviation of the last batch's advantages before it was divided by."""
        return {"deviation": self.deviation}
