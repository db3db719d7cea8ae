"""GRPO on the policy's own judgements."""

from typing import Literal

from gfcr.control.judges.policy import Policy
from gfcr.control.llm_judge import LlmJudge
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def self_judge(
    *,
    group_size: int = 8,
    votes: int = 3,
    calibration: Literal["none", "rank", "affine"] = "none",
    keep_verified: bool = False,
) -> Strategy:
    """The policy scores its own answers, several times each; GRPO on the mean of the scores.

    The paper makes preference pairs of such scores and trains DPO on them, update by update.

    Paper: 2401.10020
    Formula: r_i = mean of the votes read, from 0 to 1; A_i as GRPO; no vote read is unscorable.
    Knobs: group_size, votes (of each answer), calibration (of scores to rewards), keep_verified
        (answers that the task can score keep its reward).
    Hurts: a policy that cannot judge teaches itself noise, and one that can learns what pleases
        it; votes cost as many prompts as answers times votes.
    """
    judge = LlmJudge(
        judge=Policy(), votes=votes, calibration=calibration, keep_verified=keep_verified
    )
    return Strategy(
        name="self_judge",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"judge": judge},
        group_size=group_size,
    )
