"""VCRL."""

from gfcr.control.refill import Refill
from gfcr.control.vcrl_bank import VcrlBank
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.reward_variance import RewardVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def vcrl(
    *,
    group_size: int = 8,
    kappa: float = 0.3,
    late: float = 0.8,
    late_from: int = 20,
    momentum: float = 0.9,
    max_rounds: int = 4,
) -> Strategy:
    """GRPO on prompts whose rewards vary enough; the others make way for ones from a memory bank.

    Paper: 2509.19803
    Formula: p = var(r) / max var; groups with p < kappa (late in training: late) are rejected, and
        refilled with the prompts of highest priority in the bank, asked anew; priority = p at
        first, then momentum priority + (1 - momentum) updates waited; A_i as GRPO.
    Knobs: kappa, late (notes on the paper: 0.3, then 0.8), late_from (update), momentum (0.9),
        max_rounds (batches' worth of groups, then it trains on what there is; ours), group_size.
    Hurts: where few prompts have signal the same ones come again and again, and a threshold of 0.8
        rejects success rates beyond 0.28 to 0.72.
    """
    return Strategy(
        name="vcrl",
        generate=Sample(),
        filters={
            "reward_variance": RewardVariance(kappa=kappa, late=late, late_from=late_from),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        controls={
            "refill": Refill(max_rounds=max_rounds, when_spent="short"),
            "vcrl_bank": VcrlBank(momentum=momentum),
        },
        group_size=group_size,
    )
