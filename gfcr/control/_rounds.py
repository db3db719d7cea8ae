"""Parts that decide on a group more than once, and tell its first rollouts from later ones."""

from gfcr.part import Recipe
from gfcr.stages import Allocator, Generate, Harvest


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


def forget(held: dict[str, int], harvest: Harvest) -> None:
    """Removes the groups of a batch that is over; those of the next may be in the making."""
    # Groups that were cut do not come again.
    for group_id in {g.id for g in harvest.groups} | {r.group_id for r in harvest.aborted}:
        held.pop(group_id, None)
