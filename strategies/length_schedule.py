"""GRPO under a cap that follows a schedule."""

from typing import Literal

from gfcr.control.length_schedule import LengthSchedule
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def length_schedule(
    *,
    group_size: int = 8,
    start: float = 0.25,
    end: float = 1.0,
    updates: int = 100,
    shape: Literal["linear", "step"] = "step",
    jumps: int = 2,
) -> Strategy:
    """GRPO whose rollouts may grow longer, stage by stage.

    Paper: 2503.17287
    Formula: cap = (start + (end - start) x) max_tokens, x from 0 to 1 over `updates`, in
        jumps (step) or evenly (linear); A_i as GRPO.
    Knobs: group_size, start and end (shares of sampling.max_tokens), updates, shape, jumps.
    Hurts: early stages score what needs more tokens as wrong; the policy unlearns to think long.
    """
    return Strategy(
        name="length_schedule",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={
            "length_schedule": LengthSchedule(
                start=start, end=end, updates=updates, shape=shape, jumps=jumps
            )
        },
        group_size=group_size,
    )
