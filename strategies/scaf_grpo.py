"""Scaf-GRPO."""

from typing import Literal

from gfcr.control.scaffold import Scaffold
from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.scaffolded import Scaffolded
from gfcr.generate.hinted import Hinted
from gfcr.strategy import Strategy


def scaf_grpo(
    *,
    group_size: int = 8,
    tiers: int = 3,
    most: float = 0.75,
    begin: int = 0,
    column: str = "answer",
    where: Literal["prompt", "completion"] = "prompt",
) -> Strategy:
    """GRPO with hints for prompts that no rollout answers, the weakest that helps.

    Paper: 2510.19807
    Formula: a group all wrong is asked under hints of most / tiers, 2 most / tiers... of the
        solution until one rollout is right; that one replaces a wrong one; A = (r - mean) / std.
    Knobs: group_size (ours: 8), tiers (paper: 3 kinds of hints), most (ours), begin (update from
        which hints are given; the paper exempts the first ones), column (of the data that holds the
        solution), where (in the prompt, then trained without it, or as the answer's beginning).
    Hurts: what was sampled under a hint is off-policy without it: improbable tokens weigh little.
    """
    return Strategy(
        name="scaf_grpo",
        generate=Hinted(column=column, where=where),
        filters={"scaffolded": Scaffolded(), "advantage": GroupAdvantage(kind="grpo")},
        controls={"scaffold": Scaffold(tiers=tiers, most=most, begin=begin)},
        group_size=group_size,
        correction=Truncated(),
    )
