"""Prompt Replay."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.prompt_replay import PromptReplay
from gfcr.strategy import Strategy


def prompt_replay(
    *,
    group_size: int = 8,
    low: float = 0.25,
    high: float = 0.75,
    share: float = 0.75,
    cooldown: int = 10,
    reuses: int = 15,
) -> Strategy:
    """GRPO that asks prompts of middling success rate again, always with fresh rollouts.

    Paper: 2603.21177
    Formula: keep prompts with low <= p <= high; up to share of a batch are the kept ones nearest to
        1/2 that have rested, the others come from the stream; A_i as GRPO.
    Knobs: low, high (paper: 0.25, 0.75), share (paper: at most 0.75), cooldown (updates between two
        visits; paper: 10), reuses (paper: at most 15), group_size.
    Hurts: gains are early only; few prompts asked often are learned by heart.
    """
    return Strategy(
        name="prompt_replay",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        replays={
            "prompt_replay": PromptReplay(
                low=low, high=high, share=share, cooldown=cooldown, reuses=reuses
            )
        },
        group_size=group_size,
    )
