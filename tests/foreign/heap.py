"""A game of one's own, whose turns are compared with others from equal states."""

from dataclasses import dataclass
from typing import final

from gfcr.filter.anchor_advantage import AnchorAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.episode import Episode
from gfcr.handles import Verdict
from gfcr.strategy import Strategy
from gfcr.types import Prompt


@final
class _Heap(World):
    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self.left = 5 + seed % 5
        return Observation(state=str(self.left))

    def act(self, action: str) -> Observation:
        self.left -= int((["0"] + [c for c in action if c.isdigit()])[-1])
        won, state = float(self.left == 0), str(self.left)
        return Observation(text=",", done=self.left <= 0, reward=won, state=state)

    def verdict(self, last: str) -> Verdict | None:
        return None


@final
@dataclass(frozen=True, kw_only=True)
class Heap(Environment):
    """Each action takes its last digit of stones from a heap; won when none is left."""

    def make(self) -> World:
        """See `Environment.make`."""
        return _Heap()


def heap(*, group_size: int = 8) -> Strategy:
    """GiGPO's advantages over turns in an environment that names its states."""
    return Strategy(
        name="heap",
        generate=Episode(environment=Heap(), per_turn=True, max_turns=6),
        filters={"advantage": AnchorAdvantage()},
        group_size=group_size,
    )
