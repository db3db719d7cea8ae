"""Overlong filtering, one of DAPO's measures, alone."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.truncation_gate import TruncationGate
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def overlong_filtering(*, group_size: int = 8) -> Strategy:
    """GRPO without the loss of rollouts that were cut at the token cap.

    Paper: 2503.14476
    Formula: A_i as GRPO over all rollouts; those cut at the cap are left out of the loss.
    Knobs: group_size (paper: 16).
    Hurts: where the cap should be learned: nothing discourages length, and few long answers are
        learned from. In DAPO itself soft overlong punishment is the measure that stayed.
    """
    return Strategy(
        name="overlong_filtering",
        generate=Sample(),
        # The map first: the others are compared with all, and only the loss is masked.
        filters={"advantage": GroupAdvantage(kind="grpo"), "truncation": TruncationGate()},
        group_size=group_size,
    )
