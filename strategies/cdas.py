"""CDAS."""

from gfcr.control.cdas import Cdas
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def cdas(*, group_size: int = 8) -> Strategy:
    """GRPO on the prompts whose difficulty is nearest to the policy's competence.

    Paper: 2505.17652
    Formula: d = mean over visits, and a first 0, of sigma(c - d) - success rate; c = -mean(d) over
        all prompts; half the batch from just below c, half from just above; A_i as GRPO.
    Knobs: group_size.
    Hurts: it looks at the whole training set, and needs about a visit of each prompt to tell hard
        ones from easy ones.
    """
    return Strategy(
        name="cdas",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"cdas": Cdas()},
        group_size=group_size,
    )
