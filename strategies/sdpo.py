"""SDPO."""

from gfcr.control.teacher import Teacher
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def sdpo(
    *,
    group_size: int = 8,
    template: str = "{solution},{prompt}",
    model: str = "",
    rate: float = 0.0,
    coefficient: float = 1.0,
    reward: float = 0.0,
) -> Strategy:
    """The policy teaches itself what it would have said beside a right answer of its own.

    Paper: 2601.20802
    Formula: A_t = coefficient (log p(y_t | z, x, y_<t) - log p(y_t | x, y_<t)) + reward A_i, with z
        another rollout of the group that is right, 0 for the difference without one, and A_i as
        GRPO; the sampled token stands for the whole law.
    Knobs: group_size, template (what the teacher reads, for models of prose to be put in words),
        model (the folder that the policy begins from: the teacher then stays as it was or, with
        rate above 0, is an average of the policy's weights; TRL: 0.05), coefficient and reward
        (1 and 0 are the teacher alone, 1 - w and w a mixture with GRPO, better for small models).
    Hurts: a policy that cannot learn from an answer beside it, as small ones and the demo's, is no
        better a teacher than without; groups that are all wrong teach nothing.
    """
    return Strategy(
        name="sdpo",
        generate=Sample(),
        filters={
            "advantage": GroupAdvantage(kind="grpo"),
            "distill": ReverseKl(coefficient=coefficient, reward=reward),
        },
        controls={"teacher": Teacher(model=model, rate=rate, template=template)},
        group_size=group_size,
    )
