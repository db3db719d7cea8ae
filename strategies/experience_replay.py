"""Experience replay."""

from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.experience_replay import ExperienceReplay
from gfcr.strategy import Strategy


def experience_replay(*, group_size: int = 8, share: float = 0.5, capacity: int = 64) -> Strategy:
    """GRPO that samples a part of each batch, and draws the rest from the last batches' groups.

    Paper: 2604.08706
    Formula: a batch of B groups is (1 - share) B new ones and share B of the `capacity` made last,
        drawn evenly, weighted by min(pi / pi_sampled, cap) token by token.
    Knobs: group_size, share (of the batch), capacity (groups kept; some batches' worth).
    Hurts: the larger both, the older what is learned from: the score per update falls, the more so
        the faster the policy moves, and where generating is cheap nothing makes up for it.
    """
    return Strategy(
        name="experience_replay",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        replays={"experience": ExperienceReplay(share=share, capacity=capacity)},
        group_size=group_size,
        correction=Truncated(),
    )
