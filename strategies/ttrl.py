"""TTRL: test-time reinforcement learning on the majority's answer."""

from gfcr.control.majority_vote import MajorityVote
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def ttrl(*, group_size: int = 16, answer: str = "", least: float = 0.0) -> Strategy:
    """GRPO on pseudo-labels: a rollout is right if it answers as most of its group do.

    Paper: 2504.16084
    Formula: r_i = 1[answer_i = majority]; A_i as GRPO. No reference answer is read.
    Knobs: group_size (paper: votes of 64, of which 32 are trained on; here all are), answer (group
        1 of its last match is the answer; empty takes the whole text), least (share that must
        agree, else the group is not judged; paper: none).
    Hurts: where most answers are wrong: the error is amplified and diversity collapses onto it.
    """
    return Strategy(
        name="ttrl",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"majority_vote": MajorityVote(answer=answer, least=least)},
        group_size=group_size,
    )
