"""Prompt curriculum learning."""

from gfcr.control.pcl import Pcl
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def pcl(*, group_size: int = 8, candidates: int = 4, target: float = 0.5) -> Strategy:
    """GRPO on the prompts that a model trained alongside expects to be of middling difficulty.

    Paper: 2510.01135
    Formula: p(x) = sigma(w . features(text)), learned from each batch's success rates; of
        candidates x B prompts take the B with the smallest |p - target|; A_i as GRPO.
    Knobs: candidates (ours), target (1/2; notes on the paper), group_size.
    Hurts: where the text does not tell how hard a prompt is. The paper's value model is a language
        model, ours a logistic regression on hashed n-grams.
    """
    return Strategy(
        name="pcl",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"pcl": Pcl(candidates=candidates, target=target)},
        group_size=group_size,
    )
