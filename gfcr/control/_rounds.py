"""Parts that tell from a group's number of rollouts which of them were sampled first."""

from gfcr.part import Recipe
from gfcr.stages import Generate


def uncounted(strategy: Recipe) -> str | None:
    """Refuses a strategy that makes several rollouts of each sample, as trees do.

    A group has more than `group_size` rollouts from the start there.
    """
    if all(part.rollouts(1) == 1 for part in strategy.hooks(Generate).values()):
        return None
    return (
        "generate makes several rollouts of a sample, so that the first that a prompt is judged by "
        "cannot be told from those that follow. Use a generate part such as sample."
    )
