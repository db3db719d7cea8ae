"""The budget of KV cache for rollouts beside serving: watch, cut once, freeze (ROSE).

watch    rollouts grow as long as a headroom stays free
cut      serving reaches into the headroom: the rollouts' budget is halved, and whole requests
         are aborted, the newest first, until the rest fits
frozen   no growth until the next update, so that the budget does not swing
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from gfcr.values.ranges import Checked, Count, Share


@final
@dataclass(kw_only=True)
class KvBudget(Checked):
    """Blocks of KV cache shared by serving and rollouts. Emulates ROSE's remapped pages."""

    blocks: Count
    """All blocks of the engine's KV cache."""
    headroom: Share = 0.2
    """Share of the blocks that is kept free for serving (about 20 % in notes on the paper)."""
    budget: int = field(init=False)
    """Blocks that rollouts may hold."""
    frozen: bool = field(init=False, default=False)
    cuts: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.budget = self._free

    @property
    def _free(self) -> int:
        return self.blocks - int(self.headroom * self.blocks)

    def room(self, *, serving: int, rollouts: int) -> int:
        """Returns the number of blocks by which rollouts may grow now."""
        if self.frozen:
            return 0
        return max(0, min(self.budget - rollouts, self._free - serving - rollouts))

    def look(self, *, serving: int, held: Mapping[str, int]) -> list[str]:
        """Cuts the rollouts' budget if serving has reached into the headroom.

        Args:
            serving: blocks that serving holds.
            held: blocks of each rollout request, the oldest first.

        Returns:
            Requests to abort, the newest first; none while the headroom is free.
        """
        total = sum(held.values())
        if serving + total <= self._free or not held:
            return []
        if not self.frozen:
            self.budget, self.frozen = self.budget // 2, True  # frozen, or it would swing
            self.cuts += 1
        # What fits the budget may still not fit beside a burst that goes on.
        allowed = min(self.budget, max(0, self._free - serving))
        aborted: list[str] = []
        for name, blocks in reversed([*held.items()]):
            if total <= allowed:
                break
            aborted.append(name)
            total -= blocks
        return aborted

    def updated(self) -> None:
        """Restores the whole budget after an update."""
        self.budget, self.frozen = self._free, False
