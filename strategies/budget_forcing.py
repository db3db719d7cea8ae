"""GRPO with budget forcing."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.budget_forcing import BudgetForcing
from gfcr.strategy import Strategy


def budget_forcing(*, group_size: int = 8, thinking: float = 0.75, marker: str = "#") -> Strategy:
    """GRPO whose rollouts are made to answer when their budget of thinking is spent.

    Paper: 2501.19393
    Formula: at floor(thinking x cap) tokens without `marker`, append it (no loss) and sample on;
        A_i as GRPO.
    Knobs: group_size, thinking, marker.
    Hurts: the policy learns to answer behind a text that it does not write itself.
    """
    return Strategy(
        name="budget_forcing",
        generate=BudgetForcing(thinking=thinking, marker=marker),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
