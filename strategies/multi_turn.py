"""GRPO over rollouts that call a tool."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.multi_turn import MultiTurn
from gfcr.strategy import Strategy


def multi_turn(*, group_size: int = 8, stop: str = "=", max_turns: int = 16) -> Strategy:
    """GRPO with a tool in the loop: the policy is trained on its own tokens alone.

    The tool is the calculator, or the one that `generate.tool` names.

    Paper: 2505.07773
    Formula: A_i as GRPO on the tokens the policy sampled, 0 on what the tool wrote.
    Knobs: group_size, stop (the text that calls the tool), max_turns.
    Hurts: a policy not trained with the tool's answers meets unfamiliar text; a slow tool makes
        the engine wait.
    """
    return Strategy(
        name="multi_turn",
        generate=MultiTurn(stop=stop, max_turns=max_turns),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
