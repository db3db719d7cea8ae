"""Generation and training in turn."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.schedule.base import Schedule, Standing


@final
@dataclass(kw_only=True)
class Sync(Schedule):
    """Each batch is made by the policy that learns from it; the trainer waits for it."""

    overlaps: ClassVar[bool] = False

    def loads(self, version: int, *, at: Standing) -> bool:
        return not at.opened

    def opens(self, at: Standing) -> bool:
        return not at.opened and at.loaded == at.closed
