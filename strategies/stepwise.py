"""Multi-turn rollouts as one sample a turn."""

from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.generate.environments.tool_call import ToolCall
from gfcr.generate.episode import Episode
from gfcr.strategy import Strategy


def stepwise(*, group_size: int = 8, stop: str = "=", max_turns: int = 16) -> Strategy:
    """GRPO over turns: each is a sample whose prompt is the history before it.

    Paper: none
    Formula: A = GRPO's of the episode's outcome among its group's episodes, on every token that
        the policy sampled in any of its turns; nothing else is in a sample's completion.
    Knobs: group_size, stop (the text that calls the tool), max_turns.
    Hurts: the trainer reads a history once for each turn of it, which grows with their square.
        Take `multi_turn` where an environment never rewrites the history.
    """
    return Strategy(
        name="stepwise",
        generate=Episode(environment=ToolCall(), stop=stop, max_turns=max_turns, per_turn=True),
        filters={"advantage": EpisodeAdvantage(kind="grpo")},
        group_size=group_size,
    )
