"""GiGPO (arXiv 2505.10978): episodes are compared, and beside them turns from equal states."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.episode import Episode
from gfcr.handles import EPISODE, STEP_REWARD, Verdict, by_state
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group, Prompt
from gfcr.values.ranges import NonNegative, Share


@final
@dataclass(kw_only=True)
class AnchorAdvantage(Filter):
    """A = A_episode + weight (R - mean) / std over the turns from the same state.

    R is the turn's discounted return; a turn alone in its state has no step advantage.
    """

    paper: ClassVar[str] = "2505.10978"
    gives_advantages = True

    weight: NonNegative = 1.0
    discount: Share = 0.95

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        returns = self._returns(group)
        steps = [0.0] * len(returns)
        for state in by_state(group.rollouts):
            same = [i for i in state if group.kept_N[i]]
            if len(same) > 1:
                own = np.array([returns[i] for i in same])
                scaled = (own - own.mean()) / (own.std(ddof=1) + 1e-6)
                for i, step in zip(same, scaled, strict=True):
                    steps[i] = self.weight * float(step)
        pairs = zip(group.signals, steps, strict=True)
        given = [None if s.advantage is None else s.advantage + step for s, step in pairs]
        return group.with_advantages(given)

    def _returns(self, group: Group) -> list[float]:
        """Returns of the turns: an episode's stand in order, so its last one is met first."""
        returns, later = [0.0] * len(group.rollouts), dict[object, float]()
        for i, rollout in reversed([*enumerate(group.rollouts)]):
            episode, earned = rollout.notes.get(EPISODE), rollout.notes.get(STEP_REWARD, 0.0)
            returns[i] = later[episode] = earned + self.discount * later.get(episode, 0.0)
        return returns


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


def gigpo(*, group_size: int = 8, weight: float = 1.0, discount: float = 0.95) -> Strategy:
    """Group-in-group advantages."""
    return Strategy(
        name="gigpo",
        generate=Episode(environment=Heap(), per_turn=True, max_turns=6),
        filters={
            "advantage": EpisodeAdvantage(),
            "anchors": AnchorAdvantage(weight=weight, discount=discount),
        },
        group_size=group_size,
    )
