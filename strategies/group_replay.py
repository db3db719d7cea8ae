"""Replay of whole groups in the place of dead ones."""

from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.replay.group_replay import GroupReplay
from gfcr.strategy import Strategy


def group_replay(
    *,
    group_size: int = 8,
    capacity: int = 64,
    reuses: int = 2,
    cooldown: int = 0,
    max_age: int = 8,
) -> Strategy:
    """GRPO whose dead groups are replaced by earlier groups that taught something.

    Paper: none; what TRL's trainer with a replay buffer was for
    Formula: groups of equal rewards are rejected; kept groups of the largest sum |A| x std(r) take
        their places, weighted by min(pi / pi_sampled, cap) token by token.
    Knobs: group_size (GRPO's), capacity (TRL: 64), reuses, cooldown and max_age (ours).
    Hurts: as the policy moves on, what is kept teaches less; a batch may stay short at first.
    """
    return Strategy(
        name="group_replay",
        generate=Sample(),
        filters={"zero_variance": ZeroVariance(), "advantage": GroupAdvantage(kind="grpo")},
        replays={
            "group_replay": GroupReplay(
                capacity=capacity, reuses=reuses, cooldown=cooldown, max_age=max_age
            )
        },
        group_size=group_size,
        correction=Truncated(),
    )
