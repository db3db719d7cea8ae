"""Two memories at once: a prompt's best earlier answers, and its newest ones."""

from gfcr.filter.split_advantage import SplitAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.repo import Repo
from gfcr.strategy import Strategy
from gfcr.types import Loss


def two_replays(*, group_size: int = 4) -> Strategy:
    """Two caches beside each other."""
    return Strategy(
        name="two_replays",
        generate=Sample(),
        filters={"advantage": SplitAdvantage()},
        replays={
            "best": Repo(num=2, min_cached=group_size, choose="highest"),
            "newest": Repo(num=2, min_cached=group_size, choose="recent"),
        },
        loss=Loss(off_policy="behaviour"),
        group_size=group_size,
    )
