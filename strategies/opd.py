"""On-policy distillation."""

from gfcr.control.teacher import Teacher
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def opd(
    *, group_size: int = 4, model: str = "", coefficient: float = 1.0, reward: float = 0.0
) -> Strategy:
    """The policy samples, and a teacher says of each token how probable it would have been.

    Paper: 2306.13649
    Formula: A_t = coefficient (log p_teacher(y_t) - log p_policy(y_t)) + reward A_i, A_i as GRPO.
    Knobs: group_size (ours: 4), model (folder of the teacher, of the policy's vocabulary; it must
        be named), coefficient (slime's and Tinker's: 1), reward (what the verifier's advantage
        counts beside; 0 needs no verifier, slime's is 1).
    Hurts: a second model is held and run; where the policy begins as the teacher never would, the
        teacher's word is worth little; the policy becomes no better than its teacher.
    """
    return Strategy(
        name="opd",
        generate=Sample(),
        filters={
            # It counts nothing while `reward` is 0, and is there for runs that set it above.
            "advantage": GroupAdvantage(kind="grpo"),
            "distill": ReverseKl(coefficient=coefficient, reward=reward),
        },
        controls={"teacher": Teacher(model=model)},
        group_size=group_size,
    )
