"""DARS."""

from typing import Literal

from gfcr.control.dars import Dars
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def dars(*, group_size: int = 8, schedule: Literal["et", "hw"] = "et", high: int = 32) -> Strategy:
    """Samples hard prompts once more, so that they weigh as much as prompts of success rate 1/2.

    Paper: 2508.13755
    Formula: extra = ceil((A_peak - n S) / S) where a < 1/2, S = 2 a (1-a), A_peak = n/2 (et) or
        n (1-a) (hw); A_i = r_i - mean(r) over all rollouts of the prompt.
    Knobs: group_size (n; paper: 8), schedule (et: equal treatment, hw: hardness-weighted), high
        (most rollouts of a prompt; paper: 32 for et, 64 for hw).
    Hurts: a prompt out of reach costs `high` rollouts and stays dead; for the paper's breadth
        also take far more prompts an update (paper: 3072 at once).
    """
    return Strategy(
        name="dars",
        generate=Sample(),
        # S and A_peak are of advantages without a deviation, and the loss has no length in it:
        # with GRPO's map or mean the extra rollouts would not make prompts weigh alike.
        filters={"advantage": GroupAdvantage(kind="dr_grpo")},
        controls={"dars": Dars(schedule=schedule, high=high)},
        group_size=group_size,
        loss=Loss(aggregation="dr_grpo"),
    )
