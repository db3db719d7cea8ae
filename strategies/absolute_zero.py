"""Absolute Zero."""

from gfcr.control.learnability import Learnability
from gfcr.filter.task_relative import TaskRelative
from gfcr.generate.sample import Sample
from gfcr.replay.proposals import Proposals
from gfcr.strategy import Strategy


def absolute_zero(
    *, group_size: int = 1, samples: int = 8, references: int = 6, begin: int = 64
) -> Strategy:
    """The policy proposes problems that an executor checks, and learns to solve them.

    Paper: 2505.03335
    Formula: a proposal is worth 1 - s for 0 < s < 1, else 0, with s the mean reward of `samples`
        answers to its problem; A = (r - mean) / std over the batch's rollouts of a role and kind.
    Knobs: group_size (paper: 1), samples (paper: 8), references (problems shown to the proposer;
        paper: 6), begin (prompts of the run's data to begin with; paper: 4 batches of its own).
    Hurts: most tokens are answers on the side, which are not trained on; proposals drift to what
        is odd rather than useful.
    """
    return Strategy(
        name="absolute_zero",
        generate=Sample(),
        filters={"advantage": TaskRelative()},
        controls={"learnability": Learnability(samples=samples)},
        replays={"proposals": Proposals(references=references, begin=begin)},
        group_size=group_size,
    )
