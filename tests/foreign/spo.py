"""SPO, single-stream policy optimization: no groups, a tracked value per prompt (2509.13232)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Interval

from gfcr.generate.sample import Sample
from gfcr.stages import AfterUpdate, BatchMap, Filter, Harvest, Observer, Selector
from gfcr.strategy import Strategy
from gfcr.types import Group, Prompt
from gfcr.values.ranges import Count, Positive


@final
@dataclass(kw_only=True)
class Tracker(Filter, Selector, BatchMap, Observer, AfterUpdate):
    """A = (r - v(x)) normalised over the batch; prompts drawn by sqrt(v (1 - v)) + `least`.

    v is the mean of a Beta tracker whose evidence is forgotten by 2^(-D / `half`), D being how far
    the policy moved since: the trainer's log-prob gap, summed over updates.
    """

    gives_advantages = True
    half: Positive = 0.06
    window: Positive = 8.0
    """Evidence a new prompt's tracker begins with, shared by v = 1/2."""
    least: Annotated[float, Interval(gt=0, le=1)] = 0.05
    looked_at: Count = 4
    """Candidates looked at for each prompt taken."""
    evidence: dict[str, tuple[float, float]] = field(
        init=False, default_factory=dict[str, tuple[float, float]]
    )
    moved: float = field(init=False, default=0.0)
    at: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """How far the policy had moved when the prompt was last seen."""
    put_back: int = field(init=False, default=0)

    def value(self, prompt_id: str) -> float:
        """Tracked success rate."""
        good, bad = self._kept(prompt_id)
        return good / (good + bad)

    def select(self, num: int, *, view: Any) -> Sequence[Prompt]:
        """See `Selector.select`."""
        found = view.draw(num * self.looked_at)
        values = np.array([self.value(prompt.id) for prompt in found])
        weights = np.sqrt(values * (1 - values)) + self.least
        rng = view.rng("spo", view.round)
        chosen = set(rng.choice(len(found), size=num, replace=False, p=weights / weights.sum()))
        back = [p for i, p in enumerate(found) if i not in chosen]
        view.put_back(back)
        self.put_back = len(back)
        return [p for i, p in enumerate(found) if i in chosen]

    def apply(self, group: Group, *, view: Any) -> Group:
        """See `Filter.apply`."""
        value = self.value(group.prompt.id)
        own = [float(r) - value for r in group.rewards_N]
        return group.with_advantages(own).with_values(tracked=value)

    def map_batch(self, groups: Sequence[Group], *, view: Any) -> Sequence[Group]:
        """See `BatchMap.map_batch`."""
        own = [[float(np.mean(s.advantage or 0.0)) for s in g.signals] for g in groups]
        every = np.concatenate(own)
        mean, scale = float(every.mean()), float(every.std()) or 1.0
        pairs = zip(groups, own, strict=True)
        return [g.with_advantages([(a - mean) / scale for a in found]) for g, found in pairs]

    def observe(self, harvest: Harvest, *, view: Any) -> None:
        """See `Observer.observe`."""
        for group in harvest.groups:
            rewards = [r.reward for r in group.rollouts if r.reward is not None]
            won, name = sum(rewards), group.prompt.id
            good, bad = self._kept(name)
            self.evidence[name] = (good + won, bad + len(rewards) - won)
            self.at[name] = self.moved

    def after_update(self, metrics: Mapping[str, float], *, view: Any) -> None:
        """See `AfterUpdate.after_update`."""
        self.moved += metrics.get("logprob_gap", 0.0)

    def metrics(self) -> Mapping[str, float]:
        """Prompts tracked, candidates put back for the last batch, how far the policy has moved."""
        return {
            "tracked": float(len(self.evidence)),
            "put_back": float(self.put_back),
            "moved": self.moved,
        }

    def _kept(self, prompt_id: str) -> tuple[float, float]:
        start = self.window / 2
        good, bad = self.evidence.get(prompt_id, (start, start))
        left = 2 ** (-(self.moved - self.at.get(prompt_id, self.moved)) / self.half)
        return max(good * left, 1e-3), max(bad * left, 1e-3)


def spo(*, half: float = 0.06, looked_at: int = 4) -> Strategy:
    """Single-stream policy optimization."""
    tracker = Tracker(half=half, looked_at=looked_at)
    return Strategy(name="spo", generate=Sample(), filters={"tracker": tracker}, group_size=1)
