"""RollPacker."""

from gfcr.control.roll_packer import RollPacker
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def rollpacker(*, group_size: int = 8, factor: float = 1.25) -> Strategy:
    """Tail batching: prompts whose rollouts are long wait for a batch of their own.

    Paper: 2509.21009
    Formula: begin factor x P prompts, train the first P to finish, queue the others; once P are
        queued they are a batch of their own, begun afresh, none cut. A_i as GRPO.
    Knobs: group_size, factor.
    Hurts: a short tail: what is cut is paid for twice; between long rounds updates see short
        rollouts alone.
    """
    return Strategy(
        name="rollpacker",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"roll_packer": RollPacker(factor=factor)},
        group_size=group_size,
    )
