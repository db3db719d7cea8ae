"""GiGPO's advantages: episodes are compared, and beside them turns from equal states."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.handles import EPISODE, STATE, STEP_REWARD
from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import NonNegative, Share


@final
@dataclass(kw_only=True)
class AnchorAdvantage(Filter):
    """Compares episodes, and beside them the turns of a group that began in the same state.

    Turns are rollouts of their own: `episode` with `per_turn`. A turn's state is what the
    environment says of it (`Observation.state`), or else all that it was shown. With r_k what turn
    k was worth by itself (`Observation.reward`; the last turn also what the episode's reward is
    beyond their sum), R_t = sum_k discount^k r_(t+k), and A = `group_advantage` of `kind`:

        A_t = A of its episode + weight A of R_t among the turns from the same state

    A turn that is alone in its state has its episode's advantage alone.

    Hurts where states seldom come again, which leaves the comparison of episodes; and where words
    for a state are equal though what can be done from there is not.
    """

    paper: ClassVar[str] = "2505.10978"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    kind: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    weight: NonNegative = 1.0
    discount: Share = 0.95
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-6

    def fewest(self) -> int:
        return self._episodes().fewest()

    def apply(self, group: Group, *, view: View) -> Group:
        found = self._episodes().apply(group, view=view)
        steps_N, num = self._steps(group)
        pairs = zip(found.signals, steps_N, strict=True)
        given = [None if s.advantage is None else s.advantage + float(a) for s, a in pairs]
        return found.with_advantages(given).with_values(anchored=float(num))

    def _steps(self, group: Group) -> tuple[Floats, int]:
        """Returns the weighted advantages among equal states, and how many turns have one."""
        map_ = GroupAdvantage(kind=self.kind, epsilon=self.epsilon)
        returns_N, steps_N = self._returns(group), np.zeros(len(group.rollouts), np.float32)
        states: dict[object, list[int]] = {}
        for i, rollout in enumerate(group.rollouts):
            if group.kept_N[i] and EPISODE in rollout.notes:
                states.setdefault(rollout.notes.get(STATE, rollout.prompt.tokens), []).append(i)
        anchored = [turns for turns in states.values() if len(turns) > 1]
        for turns in anchored:
            steps_N[turns] = self.weight * map_.compared(returns_N[turns])
        return steps_N, sum(map(len, anchored))

    def _returns(self, group: Group) -> Floats:
        """Returns R of each rollout; the turns of an episode stand in order."""
        paid = dict[object, float]()
        for rollout in group.rollouts:
            paid[_episode(rollout)] = paid.get(_episode(rollout), 0.0) + _paid(rollout)
        returns_N, later = np.zeros(len(group.rollouts), np.float32), dict[object, float]()
        for i in reversed(range(len(group.rollouts))):
            own, episode = _paid(group.rollouts[i]), _episode(group.rollouts[i])
            if episode not in later:
                own += float(group.signals[i].reward or 0.0) - paid[episode]
            later[episode] = own + self.discount * later.get(episode, 0.0)
            returns_N[i] = later[episode]
        return returns_N

    def _episodes(self) -> EpisodeAdvantage:
        return EpisodeAdvantage(kind=self.kind, epsilon=self.epsilon)


def _episode(rollout: Rollout) -> object:
    # A recalled rollout's episode may have the number of one made now: the group's id differs.
    return rollout.group_id, rollout.notes.get(EPISODE, rollout.id)


def _paid(turn: Rollout) -> float:
    return float(turn.notes.get(STEP_REWARD, 0.0))
