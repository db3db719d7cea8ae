"""Plan, then act."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.plan_then_act import PlanThenAct
from gfcr.strategy import Strategy


def plan_then_act(
    *,
    group_size: int = 8,
    answers: int = 4,
    template: str = "{prompt}",
    ends: str = ",",
    act: str = "",
) -> Strategy:
    """GRPO on plans with several answers each; a plan is generated once and trained with them.

    Paper: 2305.04091
    Formula: n / `answers` plans, `answers` completions of each; A = (r - mean) / std over all of
        them, on plan and answer alike, so that a plan learns from the mean of its answers.
    Knobs: group_size (GRPO's), answers (ours: 4), template, ends and act (what asks for a plan,
        ends it, and asks for the answer; ours suit the demo, the paper's are words before an
        answer and train nothing).
    Hurts: answers to one plan are alike; held-out answers are asked for plainly unless
        `evaluation.generate` names the part.
    """
    return Strategy(
        name="plan_then_act",
        generate=PlanThenAct(answers=answers, template=template, ends=ends, act=act),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
