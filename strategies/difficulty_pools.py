"""Difficulty pools."""

from gfcr.control.difficulty_pools import DifficultyPools
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def difficulty_pools(
    *,
    group_size: int = 8,
    easy: float = 0.8,
    hard: float = 0.2,
    easy_share: float = 0.1,
    hard_share: float = 0.1,
) -> Strategy:
    """GRPO that draws set shares of a batch from pools of easy, normal and hard prompts.

    Paper: none, the difficulty pools of prime-rl
    Formula: a prompt is easy from a mean reward of `easy` on, hard up to `hard`, else normal; of B
        prompts easy_share B and hard_share B are drawn from those pools, the others are normal.
    Knobs: easy, hard (prime-rl: 0.8, 0.2), easy_share, hard_share (prime-rl: 0.1, 0.1), group_size.
    Hurts: an easy or hard prompt is seen again late, however fast the policy moves.
    """
    return Strategy(
        name="difficulty_pools",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={
            "difficulty_pools": DifficultyPools(
                easy=easy, hard=hard, easy_share=easy_share, hard_share=hard_share
            )
        },
        group_size=group_size,
    )
