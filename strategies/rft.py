"""RFT."""

from gfcr.filter.best_rollouts import BestRollouts
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def rft(*, group_size: int = 8, least: float = 1.0, keep: int = 0) -> Strategy:
    """Rejection-sampling fine-tuning: the right answers, each text once, by their likelihood.

    Paper: 2308.01825
    Formula: -mean of log pi(token) over the kept tokens; kept are distinct rollouts, r >= least.
    Knobs: group_size, least (reward from which an answer is right), keep (most a prompt; 0: all).
    Hurts: nothing is unlearned, and prompts never solved are never learned from.
    """
    return Strategy(
        name="rft",
        generate=Sample(),
        filters={"best": BestRollouts(least=least, keep=keep)},
        loss=Loss(estimator="sft"),
        group_size=group_size,
    )
