"""Parts that tell from a group's number of rollouts which of them were sampled first."""

from gfcr.part import Recipe
from gfcr.stages import Allocator, Generate


class Resizes(Allocator):
    """An Allocator that gives groups other sizes than the strategy's `group_size`."""


def multiplied(strategy: Recipe) -> bool:
    """Returns whether several rollouts are made of each sample, as in trees."""
    return any(part.rollouts(1) > 1 for part in strategy.hooks(Generate).values())


def uncounted(strategy: Recipe) -> str | None:
    """Refuses a strategy whose groups have other sizes than `group_size` from the start."""
    if multiplied(strategy):
        return (
            "generate makes several rollouts of a sample, so that the first that a prompt is "
            "judged by cannot be told from those that follow. Use a generate part such as sample."
        )
    if sized := strategy.hooks(Resizes):
        return (
            f"{', '.join(sized)} gives groups other sizes than group_size, by which it tells the "
            "first rollouts of a prompt from those that follow. Remove one of them."
        )
    return None
