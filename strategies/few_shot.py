"""Seeding by examples."""

from gfcr.control.scaffold import Scaffold
from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.scaffolded import Scaffolded
from gfcr.generate.few_shot import FewShot
from gfcr.strategy import Strategy


def few_shot(*, group_size: int = 8, examples: int = 2, tries: int = 2) -> Strategy:
    """GRPO that shows solved examples where no rollout was right.

    Paper: 2510.06672
    Formula: a group all wrong gets `tries` rollouts behind `examples` solved prompts of the run,
        until one is right; that one replaces a wrong one; A = (r - mean) / std.
    Knobs: group_size (ours: 8), examples (ours: 2), tries (ours: 2). Of the paper's XRPO it is the
        seeding alone: not its allocation of rollouts, nor its bonus for novelty.
    Hurts: what was sampled behind examples is off-policy without them.
    """
    return Strategy(
        name="few_shot",
        generate=FewShot(examples=examples),
        filters={"scaffolded": Scaffolded(), "advantage": GroupAdvantage(kind="grpo")},
        controls={"scaffold": Scaffold(tiers=1, num=tries, most=1.0)},
        group_size=group_size,
        correction=Truncated(),
    )
