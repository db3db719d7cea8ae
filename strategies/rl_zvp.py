"""RL-ZVP."""

from gfcr.correction.rl_zvp import RlZvp as ByEntropy
from gfcr.filter.rl_zvp import RlZvp
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def rl_zvp(*, group_size: int = 8, alpha: float = 0.1) -> Strategy:
    """GRPO that learns from groups without variance too, token by token by entropy.

    Paper: 2509.21880
    Formula: A_i as GRPO where rewards differ; else A_t = alpha H_t all right, A_t = -alpha (max H -
        H_t) all wrong, with H_t the entropy of the policy before the update at token t.
    Knobs: group_size, alpha (third-party notes: 0.1 to 0.2).
    Hurts: prompts out of reach, or with a wrong verifier, now push: every sure token away.
    """
    return Strategy(
        name="rl_zvp",
        generate=Sample(),
        filters={"advantage": RlZvp(alpha=alpha)},
        correction=ByEntropy(),
        group_size=group_size,
    )
