"""Restarts behind verified prefixes."""

from gfcr.control.scaffold import Scaffold
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.scaffolded import Scaffolded
from gfcr.generate.verified_prefix import VerifiedPrefix
from gfcr.strategy import Strategy


def prefix_restart(*, group_size: int = 8, tiers: int = 3, most: float = 0.75) -> Strategy:
    """GRPO that begins behind an earlier right answer where no rollout was right this time.

    Paper: 2506.17211
    Formula: a group all wrong gets a rollout behind most / tiers, 2 most / tiers... of a right
        answer that this run gave the prompt before, until one is right; that one replaces a wrong
        one; A = (r - mean) / std; no loss on the prefix.
    Knobs: group_size, tiers, most (all ours). BREAD branches from an expert's answers where nothing
        is solved; here the expert is the policy of earlier updates.
    Hurts: in the first epoch nothing is known; what is only solved behind a prefix may stay so.
    """
    return Strategy(
        name="prefix_restart",
        generate=VerifiedPrefix(),
        filters={"scaffolded": Scaffolded(), "advantage": GroupAdvantage(kind="grpo")},
        controls={"scaffold": Scaffold(tiers=tiers, most=most)},
        group_size=group_size,
    )
