"""Self-repair."""

from typing import Literal

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.self_repair import SelfRepair
from gfcr.strategy import Strategy


def self_repair(
    *,
    group_size: int = 6,
    repairs: int = 1,
    when: Literal["wrong", "always"] = "wrong",
    train: Literal["repair", "plain"] = "repair",
) -> Strategy:
    """GRPO over answers and what became of the wrong ones on a second try.

    Paper: 2303.11366
    Formula: a wrong answer is tried again by a prompt that shows it; A = (r - mean) / std over
        first and further tries.
    Knobs: group_size (ours: 6), repairs (ours: 1), when (which answers are tried again), train
        (under the prompt that shows the answer, or the plain one). The paper reflects in words and
        learns nothing; here the second try is trained.
    Hurts: by its price; first tries are compared with second ones, which have it easier.
    """
    return Strategy(
        name="self_repair",
        generate=SelfRepair(repairs=repairs, when=when, train=train),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
