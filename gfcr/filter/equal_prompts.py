"""Weighs rollouts so that every prompt counts alike, however many it has."""

from dataclasses import dataclass, replace
from typing import ClassVar, final

from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class EqualPrompts(Filter):
    """Multiplies each rollout's weight by group_size / n, n being the group's kept rollouts.

    Where budgets differ, a prompt's share in the update would grow with its rollouts; so weighed
    it is the mean over the prompt's rollouts, and the batch the mean over prompts, as with equal
    groups. Put it last.

    Hurts where more weight for hard prompts is what the allocation is for (`dars`).
    """

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    def apply(self, group: Group, *, view: View) -> Group:
        kept = group.kept_N
        # This never divides by 0, as filters are asked only while a rollout is kept.
        factor = view.group_size / int(kept.sum())
        return group.with_signals(
            [
                replace(signal, weight=signal.weight * factor) if keep else signal
                for signal, keep in zip(group.signals, kept, strict=True)
            ]
        )
