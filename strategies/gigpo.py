"""GiGPO."""

from gfcr.filter.anchor_advantage import AnchorAdvantage
from gfcr.generate.environments.tool_call import ToolCall
from gfcr.generate.episode import Episode
from gfcr.strategy import Strategy


def gigpo(
    *,
    group_size: int = 8,
    stop: str = "=",
    max_turns: int = 16,
    weight: float = 1.0,
    discount: float = 0.95,
) -> Strategy:
    """GRPO over turns, which are compared as parts of episodes and with others from their state.

    Paper: 2505.10978
    Formula: A_t = (r - mean(r)) / std(r) of the episode among its group's + w (R_t - mean(R)) /
        std(R) among the group's turns from the same state; R_t = sum_k gamma^k r_(t+k).
    Knobs: group_size, stop (the text that calls the tool), max_turns, weight (w), discount (gamma).
    Hurts: where states seldom come again it is `stepwise`; an environment that says
        `Observation.state` finds equal ones that histories hide.
    """
    return Strategy(
        name="gigpo",
        generate=Episode(environment=ToolCall(), stop=stop, max_turns=max_turns, per_turn=True),
        filters={"advantage": AnchorAdvantage(weight=weight, discount=discount)},
        group_size=group_size,
    )
