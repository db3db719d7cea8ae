"""CPPO."""

from gfcr.control.pack_prompts import PackPrompts
from gfcr.filter.cppo import Cppo
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def cppo(*, group_size: int = 16, prune: float = 0.5) -> Strategy:
    """GRPO on the rollouts of largest advantage, with more prompts in the place of the others.

    Paper: 2503.22342
    Formula: A_i as GRPO over all G; the floor(G (1 - P)) of largest |A_i| are trained on, ties at
        random; 1 / (1 - P) x the prompts fill the update.
    Knobs: group_size (paper: 16), prune (P; paper: .5 to .9375).
    Hurts: it saves updates and not rollouts: where generation is the cost, an update's is
        1 / (1 - P) x; `controls: {pack: null}` leaves the number of prompts as it is.
    """
    return Strategy(
        name="cppo",
        generate=Sample(),
        # The order makes the statistics those of all rollouts: map first, then choose.
        filters={"advantage": GroupAdvantage(kind="grpo"), "cppo": Cppo(prune=prune)},
        controls={"pack": PackPrompts(prune=prune)},
        group_size=group_size,
    )
