"""On-policy self-distillation."""

from gfcr.control.teacher import Teacher
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def opsd(
    *,
    group_size: int = 4,
    template: str = "{prompt}{hint},",
    column: str = "answer",
    model: str = "",
    rate: float = 0.0,
    coefficient: float = 1.0,
    reward: float = 0.0,
) -> Strategy:
    """The policy samples without a hint, and is its own teacher with one.

    Paper: 2601.18734
    Formula: A_t = coefficient (log p(y_t | hint, x, y_<t) - log p(y_t | x, y_<t)) + reward A_i, A_i
        as GRPO; the estimate of the reverse KL by the sampled token, where the paper has the whole
        law's divergence as well.
    Knobs: group_size (ours: 4), template (what the teacher reads, for models of prose to be put in
        words), column (of the data, with the hint; paper: worked solutions), model (the folder that
        the policy begins from: the teacher then stays as it was, or, with rate above 0, is an
        average of the policy's weights), coefficient (1), reward (what the verifier's advantage
        counts beside; 0 needs none).
    Hurts: a policy that cannot use the hint teaches itself noise, as the demo's does; the teacher
        moves with the policy, unless it is a model of its own.
    """
    return Strategy(
        name="opsd",
        generate=Sample(),
        filters={
            "advantage": GroupAdvantage(kind="grpo"),
            "distill": ReverseKl(coefficient=coefficient, reward=reward),
        },
        controls={"teacher": Teacher(model=model, rate=rate, template=template, column=column)},
        group_size=group_size,
    )
