"""Refills a batch from a memory of prompts whose rewards varied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, final

from gfcr.handles.prompts import rewards
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Group, Prompt
from gfcr.values.ranges import Count, Share


class Banked(NamedTuple):
    """A prompt in the bank."""

    prompt: Prompt
    priority: float
    step: int
    """Update in which it was last asked."""


@final
@dataclass(kw_only=True)
class VcrlBank(Control, Selector, Observer):
    """Begins a batch from the stream, and refills it with the bank's prompts of highest priority.

    Groups that a filter lets through enter the bank with the priority p = var / max var of their
    rewards, max var that of half right and half wrong (as the filter `reward_variance` has it). One
    that waits has, update by update, priority <- momentum * priority + (1 - momentum) * (updates
    since it was asked), so that none waits for ever (the second term is our reading); one that is
    asked again and rejected leaves. Rollouts are always fresh.

    Put a filter that rejects groups of low variance and a Planner such as `refill` beside it. Hurts
    where few prompts have signal: the batch is refilled with the same ones.
    """

    paper: ClassVar[str] = "2509.19803"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "S"
    one_batch: ClassVar[bool] = True

    momentum: Share = 0.9
    capacity: Count = 4096
    """Prompts in the bank; the one of lowest priority is forgotten first (ours)."""
    bank: dict[str, Banked] = field(init=False, default_factory=dict[str, Banked])
    asked: list[str] = field(init=False, default_factory=list[str])
    """Prompts of the bank in the batch."""

    @property
    def takes_shares(self) -> bool:
        return True

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if view.round == 0:
            self.asked = []
            return view.draw(num)
        # A prompt asked in this batch, from wherever, is not asked again to fill it.
        busy = {*self.asked, *(g.prompt.id for g in view.groups)}
        free = [b for prompt_id, b in self.bank.items() if prompt_id not in busy]
        best = sorted(free, key=lambda b: -b.priority)[:num]
        self.asked += [b.prompt.id for b in best]
        return [*(b.prompt for b in best), *view.draw(num - len(best))]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        step, visited = harvest.step, {g.prompt.id: g for g in harvest.groups}
        waiting = {i: self._aged(b, step=step) for i, b in self.bank.items() if i not in visited}
        entered = {
            prompt_id: Banked(group.prompt, priority(group), step)
            for prompt_id, group in visited.items()
            if group.rejected is None
        }
        ranked = sorted((waiting | entered).items(), key=lambda item: -item[1].priority)
        self.bank = dict(ranked[: self.capacity])

    def metrics(self) -> Mapping[str, float]:
        """Prompts of the bank asked in the last batch, and those in it."""
        return {"refilled": float(len(self.asked)), "banked": float(len(self.bank))}

    def _aged(self, banked: Banked, *, step: int) -> Banked:
        kept, waited = self.momentum, step - banked.step
        return banked._replace(priority=kept * banked.priority + (1 - kept) * waited)


def priority(group: Group) -> float:
    """Variance of rewards in [0, 1] by the largest there can be, half of them 0 and half 1."""
    scored = rewards(group)
    num = len(scored)
    if num < 2:
        return 0.0
    mean = sum(scored) / num
    return sum((r - mean) ** 2 for r in scored) * num / ((num // 2) * ((num + 1) // 2))
