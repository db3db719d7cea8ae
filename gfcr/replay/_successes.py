"""What Replay parts share that keep right rollouts of each prompt."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gfcr.stages import Harvest, Recaller, Replay, View
from gfcr.types import Group, Rollout
from gfcr.values.memory import remember
from gfcr.values.ranges import Count, Finite


@dataclass(kw_only=True)
class Solved(Replay, Recaller):
    """Keeps the last right rollouts of each prompt, with their log-probs and policy versions."""

    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    capacity: Count = 16
    """Rollouts kept of a prompt."""
    max_prompts: Count = 4096
    """Prompts kept; the one solved longest ago is forgotten first."""
    solved: dict[str, deque[Rollout]] = field(init=False, default_factory=dict[str, deque[Rollout]])
    """Prompt id -> its right rollouts, oldest first; prompts in order of their last solution."""
    recalled: int = field(init=False, default=0)
    _now: int = field(init=False, default=0)

    def keep(self, groups: Iterable[Group]) -> None:
        """Remembers the right rollouts that were sampled for these groups."""
        for group in groups:
            if right := [r for r in group.rollouts if self._is_kept(r, group=group)]:
                remember(
                    self.solved,
                    key=group.prompt.id,
                    items=right,
                    capacity=self.capacity,
                    max_keys=self.max_prompts,
                )

    def store(self, harvest: Harvest, *, view: View) -> None:
        self.keep(harvest.groups)
        self.recalled, self._now = self._now, 0

    def holds(self) -> Iterable[str]:
        return [r.id for kept in self.solved.values() for r in kept]

    def metrics(self) -> Mapping[str, float]:
        """Rollouts recalled for the last batch; rollouts and prompts kept."""
        return {
            "recalled": float(self.recalled),
            "solved_rollouts": float(sum(map(len, self.solved.values()))),
            "solved_prompts": float(len(self.solved)),
        }

    def hand_on(self, rollouts: list[Rollout]) -> list[Rollout]:
        """Counts them as recalled."""
        self._now += len(rollouts)
        return rollouts

    def drawn(self, prompt_id: str, *, num: int, view: View) -> list[Rollout]:
        """At most `num` of a prompt's at random; seeded, and the same in every strategy."""
        kept = list(self.solved.get(prompt_id, ()))
        order = view.rng("solved", prompt_id).permutation(len(kept))
        return [kept[i] for i in order[:num]]

    def _is_kept(self, rollout: Rollout, *, group: Group) -> bool:
        # One that was recalled is in the memory already, and would push out another. One under
        # another prompt, as a second try is, would be kept for a prompt that never comes again.
        own = rollout.origin == "fresh" and rollout.prompt.id == group.prompt.id
        right = rollout.reward is not None and rollout.reward >= self.threshold
        return own and right and rollout.complete
