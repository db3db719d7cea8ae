"""Power sampling."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.power_sampling import PowerSampling
from gfcr.strategy import Strategy


def power_sampling(
    *, group_size: int = 8, alpha: float = 4.0, steps: int = 10, block: int = 192
) -> Strategy:
    """Rollouts from p^alpha by Metropolis-Hastings: what the policy can do without training.

    Paper: 2510.14901
    Formula: y, like x up to a place m, is taken with probability
        min(1, (p(y_m..) / p(x_m..))^(alpha - 1) L(x) / L(y)).
    Knobs: group_size (GRPO's), alpha (paper: 4), steps (paper: 10), block (paper: 192, a sixteenth
        of the longest answer).
    Hurts: a baseline, to be run with `trainer.learning_rate=0` or named as `evaluation.generate`:
        trained on, the loss takes its rollouts for samples of p, as no ratio of tokens tells how
        they were chosen, and the policy is taught to be surer than it is right; each update costs
        about 1 + steps / 2 times the tokens.
    """
    return Strategy(
        name="power_sampling",
        generate=PowerSampling(alpha=alpha, steps=steps, block=block),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
