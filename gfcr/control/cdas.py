"""Takes the prompts whose difficulty is nearest to the policy's competence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import ClassVar, final

import numpy as np

from gfcr.handles.prompts import TrainingSet, training_set, visit
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Finite


@final
@dataclass(kw_only=True)
class Cdas(Control, Selector, Observer):
    """Takes half the batch from the prompts just below the competence and half from just above.

    A prompt's difficulty d is the mean, over its visits and a first 0, of how far its success rate
    s fell short of what was expected, sigma(c - d) - s. The competence c is minus the mean
    difficulty of all prompts. Both settle where d = sigma(c - d) - s for every prompt.

    Chooses from the whole training set, which it looks at once; a prompt may be taken in every
    update. Hurts with few visits: difficulties of prompts visited once lie within [-1/4, 1/4], and
    those not visited at 0, near the competence, come first until all were.
    """

    paper: ClassVar[str] = "2505.17652"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"
    one_batch: ClassVar[bool] = True

    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    pool: TrainingSet = field(init=False, default_factory=TrainingSet)
    difficulty: dict[str, tuple[float, int]] = field(
        init=False, default_factory=dict[str, tuple[float, int]]
    )
    """Prompt id -> difficulty, visits."""
    competence: float = field(init=False, default=0.0)
    used: list[str] = field(init=False, default_factory=list[str])
    """Prompts taken for the batch."""

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if not self.pool.prompts:
            self.pool = training_set(view)
        self.used = self.used if view.round else []
        taken: list[Prompt] = []
        while len(taken) < num:
            busy = set(self.used)
            free = [p for p in self.pool.prompts if p.id not in busy]
            if not free:  # a batch larger than the training set
                self.used = []
                continue
            more = self._nearest(free, num=num - len(taken))
            self.used += [p.id for p in more]
            taken += more
        return taken

    def observe(self, harvest: Harvest, *, view: View) -> None:
        moved = 0.0
        competence = self.competence  # of the policy that made the whole batch
        for group in harvest.groups:
            right, wrong = visit(group, threshold=self.threshold)
            if right + wrong:
                before, visits = self.difficulty.get(group.prompt.id, (0.0, 0))
                expected = 1 / (1 + exp(before - competence))
                short = expected - right / (right + wrong)
                after = (before * (visits + 1) + short) / (visits + 2)
                self.difficulty[group.prompt.id] = (after, visits + 1)
                moved += after - before
        self.competence -= moved / max(len(self.pool.prompts), len(self.difficulty), 1)

    def metrics(self) -> Mapping[str, float]:
        """The competence, the mean gap to it of the prompts taken, and prompts visited so far."""
        gaps = [abs(self._difficulty(p) - self.competence) for p in self.used]
        return {
            "competence": self.competence,
            "gap": float(np.mean(gaps)) if gaps else 0.0,
            "visited": float(len(self.difficulty)),
        }

    def _difficulty(self, prompt_id: str) -> float:
        return self.difficulty.get(prompt_id, (0.0, 0))[0]

    def _nearest(self, free: Sequence[Prompt], *, num: int) -> list[Prompt]:
        """Nearest first on either side; what one side lacks the other gives."""
        ranked = sorted(free, key=lambda p: abs(self._difficulty(p.id) - self.competence))
        below = [p for p in ranked if self._difficulty(p.id) <= self.competence]
        above = [p for p in ranked if self._difficulty(p.id) > self.competence]
        low = max(num - num // 2, num - len(above))
        low = min(low, len(below))
        return [*below[:low], *above[: num - low]]
