"""Pilot-Commit."""

from gfcr.control.pilot_commit import PilotCommit
from gfcr.control.refill import Refill
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def pilot_commit(
    *,
    group_size: int = 8,
    commit: int = 24,
    oversample: float = 3.0,
    easy: float = 0.75,
    hard: float = 0.125,
    max_rounds: int = 10,
) -> Strategy:
    """Pilots three candidates for each group wanted, and samples on where the rate is middling.

    Paper: 2605.26606
    Formula: pilots on 3B prompts; skip where the rate > easy, defer where it is < hard, else commit
        more rollouts until B groups are full; A_i as GRPO over pilots and committed rollouts.
    Knobs: group_size (pilots; paper: 16, third-party notes), commit (rollouts added; paper: 48,
        third-party notes), oversample (candidates for each group missing; paper: 3, third-party
        notes), easy and hard (paper: .75 and .125, third-party notes), max_rounds (of candidates;
        ours: after them the batch is trained short).
    Hurts: pilots of candidates out of band, and of those beyond B, are paid for in vain.
    """
    return Strategy(
        name="pilot_commit",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={
            "pilot_commit": PilotCommit(commit=commit, easy=easy, hard=hard),
            "refill": Refill(oversample=oversample, max_rounds=max_rounds, when_spent="short"),
        },
        group_size=group_size,
    )
