"""Replays a prompt's earlier rollouts beside its fresh ones."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.handles.subsets import max_variance
from gfcr.stages import Harvest, Recaller, Replay, View
from gfcr.types import Group, Rollout
from gfcr.values.memory import remember
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Repo(Replay, Recaller):
    """Caches the last `capacity` rollouts of each prompt; recalls `num` of them on a later visit.

    Nothing is recalled before `min_cached` are cached. Which ones, `choose` says:
        all            everything cached
        random         `num` at random
        highest        the `num` with the highest rewards, newer ones first
        max_variance   the `num` whose rewards vary most
        recent         the `num` newest
    Rollouts keep the log-probs they were sampled with and their policy versions. Follow it with
    the `split_advantage` filter, and a loss that corrects for off-policy data.

    Needs prompts that come back: with n rollouts a visit the first recall is at the visit
    `min_cached` / n + 1. Hurts when epochs are far apart: what it recalls is old.
    """

    paper: ClassVar[str] = "2506.09340"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "P"

    num: Count = 8
    choose: Literal["all", "random", "highest", "max_variance", "recent"] = "highest"
    min_cached: Count = 16
    capacity: Count = 16
    """Rollouts cached of a prompt."""
    max_prompts: Count = 4096
    """Prompts cached; the one unvisited for longest is forgotten first."""
    cache: dict[str, deque[Rollout]] = field(init=False, default_factory=dict[str, deque[Rollout]])
    """Prompt id -> its rollouts, oldest first; prompts in order of their last visit."""
    recalled: int = field(init=False, default=0)
    last_recalled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.min_cached > self.capacity:
            raise ConfigError(
                f"repo.min_cached={self.min_cached} with repo.capacity={self.capacity} is never "
                "reached: give min_cached <= capacity."
            )

    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        cached = list(self.cache.get(group.prompt.id, ()))
        if len(cached) < self.min_cached:
            return ()
        chosen = [cached[i] for i in self._choose(cached, view=view)]
        self.recalled += len(chosen)
        return chosen

    def store(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            own = [r for r in group.rollouts if r.prompt.id == group.prompt.id]  # not a repair's
            fresh = [r for r in own if r.origin == "fresh" and r.reward is not None]
            remember(
                self.cache,
                key=group.prompt.id,
                items=fresh,
                capacity=self.capacity,
                max_keys=self.max_prompts,
            )
        self.last_recalled, self.recalled = self.recalled, 0

    def holds(self) -> Iterable[str]:
        return [r.id for cached in self.cache.values() for r in cached]

    def metrics(self) -> Mapping[str, float]:
        """Rollouts recalled for the last batch; rollouts and prompts cached."""
        return {
            "recalled": float(self.last_recalled),
            "cached_rollouts": float(sum(map(len, self.cache.values()))),
            "cached_prompts": float(len(self.cache)),
        }

    def _choose(self, cached: Sequence[Rollout], *, view: View) -> Sequence[int]:
        size = len(cached)
        newest_first = range(size - 1, -1, -1)
        rewards_N = np.array([r.reward for r in cached], np.float32)
        match self.choose:
            case "all":
                return range(size)
            case "random":
                rng = view.rng("repo", cached[0].prompt.id)
                return sorted(rng.permutation(size)[: self.num].tolist())
            case "highest":
                return sorted(newest_first, key=lambda i: -rewards_N[i])[: self.num]
            case "max_variance":
                return max_variance(rewards_N, num=self.num)
            case "recent":
                return newest_first[: self.num]
