"""Selective Rollout."""

from gfcr.control.selective_rollout import SelectiveRollout
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def selective_rollout(
    *, group_size: int = 8, checkpoint: int = 64, threshold: float = 0.12
) -> Strategy:
    """GRPO that gives up groups whose rollouts begin alike.

    Paper: 2605.05802
    Formula: D = mean pairwise edit distance of the first `checkpoint` tokens, over their length;
        D < threshold aborts the group, and the update is trained without it; A_i as GRPO.
    Knobs: group_size, checkpoint (ours; paper: 10 actions), threshold (paper: 0.12, of actions).
    Hurts: groups that one late token decides are lost; updates of confident policies are short.
    """
    return Strategy(
        name="selective_rollout",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={
            "selective_rollout": SelectiveRollout(checkpoint=checkpoint, threshold=threshold)
        },
        group_size=group_size,
    )
