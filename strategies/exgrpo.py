"""ExGRPO."""

from gfcr.correction.policy_shaping import PolicyShaping
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.exgrpo import Exgrpo
from gfcr.strategy import Strategy


def exgrpo(
    *, group_size: int = 8, share: float = 0.5, begin: float = 0.35, gamma: float = 0.1
) -> Strategy:
    """Experience of middling prompts: their surest solutions beside fresh rollouts.

    Paper: 2510.02245
    Formula: `share` of the prompts from the buffer by exp(-(rate - 1/2)^2 / 2); their groups are
        one replay, of the highest mean log-prob now, and group_size - 1 fresh; A = (r - mean) /
        std; replayed tokens by w / (w + gamma), w = pi / pi_sampled.
    Knobs: group_size (paper: 8), share (paper: 0.5), begin (success rate of a batch from which on
        it is done, paper: 0.35), gamma (paper: 0.1).
    Hurts: prompts must come back; half a batch is old prompts, so that new ones wait.
    """
    return Strategy(
        name="exgrpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        replays={"exgrpo": Exgrpo(share=share, begin=begin)},
        group_size=group_size,
        # Recalled tokens are of older policies; fresh ones have the weight 1.
        correction=PolicyShaping(gamma=gamma),
    )
