"""Self-evolving curriculum."""

from gfcr.control.sec import Sec
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def sec(
    *, group_size: int = 8, by: str = "", rate: float = 0.5, temperature: float = 1.0
) -> Strategy:
    """GRPO whose prompts' categories are drawn by a bandit that is paid in absolute advantage.

    Paper: 2505.14970
    Formula: Q <- (1 - rate) Q + rate mean|A| for each category of the batch; a prompt's category is
        drawn with probability exp(Q / temperature) / sum; A_i as GRPO.
    Knobs: by (column of the prompts that names the category; empty: their length, ours), rate
        (authors' scripts: 0.5), temperature (authors' scripts: 1 and 0.4), group_size.
    Hurts: where categories do not tell what is learnable, and where there are many.
    """
    return Strategy(
        name="sec",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"sec": Sec(by=by, rate=rate, temperature=temperature)},
        group_size=group_size,
    )
