"""SEED-GRPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.semantic_entropy import SemanticEntropy
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def seed_grpo(
    *, group_size: int = 8, alpha: float = 0.5, answer: str = SemanticEntropy.answer
) -> Strategy:
    """GRPO that takes smaller steps on prompts whose answers disagree.

    Paper: 2505.12346
    Formula: A_i as GRPO, times max(0, 1 - alpha SE / log n), SE the entropy of the group's answers.
    Knobs: group_size, alpha (ours), answer (pattern; its group 1 is what is compared).
    Hurts: on hard prompts, which disagree most: their rare successes count least.
    """
    return Strategy(
        name="seed_grpo",
        generate=Sample(),
        filters={
            "advantage": GroupAdvantage(kind="grpo"),
            "semantic_entropy": SemanticEntropy(alpha=alpha, answer=answer),
        },
        group_size=group_size,
    )
