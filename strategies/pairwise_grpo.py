"""GRPO on comparisons within the group."""

from typing import Literal

from gfcr.control.judges.policy import Policy
from gfcr.control.pairwise_judge import PairwiseJudge
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def pairwise_grpo(
    *,
    group_size: int = 8,
    rounds: int = 0,
    scores: Literal["win_rate", "bradley_terry"] = "win_rate",
) -> Strategy:
    """A judge compares the answers of a group in pairs, in both orders; GRPO on who wins.

    The judge is the policy; `strategy.controls.judge.judge={name: endpoint, ...}` asks another.

    Paper: 2508.20751
    Formula: r_i = mean over its pairs of 1 (won in both orders), 0 (lost in both), 1/2; A_i as
        GRPO.
    Knobs: group_size, rounds (pairs of each answer, 0 is all), scores (win_rate, bradley_terry).
    Hurts: n (n - 1) questions a group; a judge that goes by position gives ties alone, which teach
        nothing.
    """
    judge = PairwiseJudge(judge=Policy(), rounds=rounds, scores=scores)
    return Strategy(
        name="pairwise_grpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"judge": judge},
        group_size=group_size,
    )
