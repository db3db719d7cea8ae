"""R-Zero."""

from gfcr.control.majority_vote import MajorityVote
from gfcr.control.uncertainty import Uncertainty
from gfcr.filter.band_pass import BandPass
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.proposals import Proposals
from gfcr.strategy import Strategy


def r_zero(
    *,
    group_size: int = 8,
    samples: int = 10,
    distance: float = 0.5,
    propose_for: int = 6,
    solve_for: int = 20,
    low: float = 0.3,
    high: float = 0.8,
    references: int = 0,
    only: str = "",
) -> Strategy:
    """Questions at the edge of what the policy is sure of, answered as most answer; by turns.

    Paper: 2508.05004
    Formula: a question is worth min(p, 1 - p) - the share of its cluster, -1 if it is none, with p
        the share of the most frequent of `samples` answers; an answer is right if most of its group
        give it, where `low` to `high` of them do. A as GRPO.
    Knobs: group_size, samples (paper: 10), distance (of a cluster, 1 - BLEU; paper: .5),
        propose_for and solve_for (updates of a phase; paper: 6 and 20), low, high (paper: .3, .8),
        references (paper: 0), only (the one kind of question; answers are compared as texts).
    Differs: one policy plays both parts, of which the authors train two copies; labels are those of
        the policy that learns from them, and not of the one that the questions were chosen by.
    Hurts: where most answers are wrong the error is amplified; labels get worse as questions get
        harder (see `majority_vote/agrees`).
    """
    return Strategy(
        name="r_zero",
        generate=Sample(),
        filters={
            # Votes are worth 0 or 1: a group's mean reward is the winner's share of the votes.
            "band": BandPass(low=low, high=high),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        controls={
            "majority_vote": MajorityVote(),
            "uncertainty": Uncertainty(samples=samples, distance=distance),
        },
        replays={
            "proposals": Proposals(
                references=references, only=only, propose_for=propose_for, solve_for=solve_for
            )
        },
        group_size=group_size,
    )
