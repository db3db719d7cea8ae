"""RePO."""

from typing import Literal

from gfcr.filter.split_advantage import SplitAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.repo import Repo
from gfcr.strategy import Strategy
from gfcr.types import Loss


def repo(
    *,
    group_size: int = 8,
    num: int = 8,
    choose: Literal["all", "random", "highest", "max_variance", "recent"] = "highest",
    min_cached: int = 16,
) -> Strategy:
    """Replay-enhanced policy optimization: fresh rollouts joined by cached ones of the prompt.

    Paper: 2506.09340
    Formula: J = J_fresh + J_replay; advantages normalised within each; replayed tokens use the
        clipped ratio pi / pi_sampled against the log-probs they were sampled with. Unlike the
        paper, both parts share one mean over tokens.
    Knobs: group_size (paper: 8), num (paper: 8), choose, min_cached (paper: 16 of a cache of 16).
    Hurts: prompts must come back; old rollouts fall outside the clip range and teach nothing
        (steadier: `loss.off_policy=none` with `correction: {name: truncated}`).
    """
    return Strategy(
        name="repo",
        generate=Sample(),
        filters={"advantage": SplitAdvantage(kind="grpo")},
        replays={"repo": Repo(num=num, choose=choose, min_cached=min_cached)},
        group_size=group_size,
        loss=Loss(off_policy="behaviour"),
    )
