"""MoPPS."""

from gfcr.control.mopps import Mopps
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def mopps(
    *,
    group_size: int = 8,
    candidates: int = 8,
    target: float = 0.5,
    decay: float = 0.5,
) -> Strategy:
    """GRPO on the prompts whose success rate, by a posterior of each, is nearest to a target.

    Paper: 2507.04632
    Formula: a' = l a + (1 - l) a0 + right, b' = l b + (1 - l) b0 + wrong; draw g ~ Beta(a, b) for
        8 B candidates and take the B with the smallest |g - target|; A_i as GRPO.
    Knobs: candidates (authors' script: 8), target (1/2: our reading), decay (l; authors' script:
        0.5), group_size.
    Hurts: a candidate not taken comes again in the next epoch: in the first one it chooses
        at random and passes over 7 of 8 prompts.
    """
    return Strategy(
        name="mopps",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"mopps": Mopps(candidates=candidates, target=target, decay=decay)},
        group_size=group_size,
    )
