"""REINFORCE++."""

from typing import Literal

from gfcr.filter.reinforce_pp import ReinforcePp
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def reinforce_pp(*, group_size: int = 8, baseline: Literal["none", "group"] = "none") -> Strategy:
    """REINFORCE with the clip of PPO and advantages normalised over the whole batch.

    Paper: 2501.03262
    Formula: A_i = (r_i - b - mean) / std, over all tokens of the batch; b = 0, or the mean reward
        of the group (REINFORCE++-baseline).
    Knobs: group_size (1 will do with baseline none), baseline.
    Hurts: without a baseline easy prompts are pushed up and hard ones down, whatever was sampled.
    """
    return Strategy(
        name="reinforce_pp",
        generate=Sample(),
        filters={"advantage": ReinforcePp(baseline=baseline)},
        group_size=group_size,
    )
