"""Skips prompts that are probably dead before any token is spent on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.handles.prompts import rewards
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Group, Prompt
from gfcr.values.ranges import Count, Share, SomeShare

LOWEST, HIGHEST = 0.05, 0.95
"""Bounds of the adapted keep probabilities."""


@final
@dataclass(kw_only=True)
class Greso(Control, Selector, Observer):
    """Skips a prompt by how often it was dead on its last visits; skipped prompts are drawn on.

    With z trailing visits that were all solved (mean reward >= `easy`), or all failed
    (<= `hard`), the prompt is skipped with probability 1 - max(p^z, `explore`), p being
    `p_easy` or `p_hard`. From the second epoch on each p falls by `adapt` after a batch whose
    share of such groups reached its part of `target` (1/3 easy, 2/3 hard), else rises by it.

    Needs prompts that come back: in the first epoch nothing is skipped. Hurts where the policy
    moves fast: a prompt that became learnable is seen late, after 1 / (1 - skip) draws on average.
    """

    paper: ClassVar[str] = "2506.02177"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"

    p_easy: SomeShare = 0.5
    p_hard: SomeShare = 0.5
    explore: SomeShare = 0.01
    """Least probability of taking a prompt."""
    target: SomeShare = 0.25
    """Share of dead groups aimed at."""
    adapt: Share = 0.01
    easy: Annotated[float, Interval(ge=-1000000.0, le=1000000.0)] = 0.98
    """Mean reward from which a visit counts as all solved."""
    hard: Annotated[float, Interval(ge=-1000000.0, le=1000000.0)] = 0.11
    """Mean reward up to which a visit counts as all failed."""
    max_skips: Count = 16
    """Prompts skipped in a round for each one wanted; after them prompts are taken as they come."""
    trails: dict[str, tuple[int, int]] = field(
        init=False, default_factory=dict[str, tuple[int, int]]
    )
    """Prompt id -> trailing visits all solved, all failed."""
    keep_easy: float = field(init=False)
    keep_hard: float = field(init=False)
    revisiting: bool = field(init=False, default=False)
    skipped: int = field(init=False, default=0)
    shares: tuple[float, float] = field(init=False, default=(0.0, 0.0))
    """Share of easy and of hard groups in the last batch."""

    def __post_init__(self) -> None:
        self.keep_easy, self.keep_hard = self.p_easy, self.p_hard

    @property
    def takes_shares(self) -> bool:
        return self.hard >= 0 and self.easy <= 1

    def skip_probability(self, prompt_id: str) -> float:
        """Probability that the prompt is skipped now; 0 where its last visit had signal."""
        solved, failed = self.trails.get(prompt_id, (0, 0))
        keep = self.keep_easy**solved * self.keep_hard**failed
        return 1 - max(keep, self.explore)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        rng = view.rng("greso", view.round)
        self.skipped = self.skipped if view.round else 0
        left = self.max_skips * num
        taken: list[Prompt] = []
        while len(taken) < num:
            (prompt,) = view.draw(1)
            self.revisiting |= prompt.id in self.trails
            # Drawn for every prompt, so that one decision does not shift the ones after it.
            if rng.random() < self.skip_probability(prompt.id) and left:
                left -= 1
                self.skipped += 1
            else:
                taken.append(prompt)
        return taken

    def observe(self, harvest: Harvest, *, view: View) -> None:
        visits = [(g.prompt.id, *self._dead(g)) for g in harvest.groups if rewards(g)]
        for prompt_id, solved, failed in visits:
            before = self.trails.get(prompt_id, (0, 0))
            self.trails[prompt_id] = (
                before[0] + 1 if solved else 0,
                before[1] + 1 if failed else 0,
            )
        if visits:
            self.shares = (
                float(np.mean([solved for _, solved, _ in visits])),
                float(np.mean([failed for _, _, failed in visits])),
            )
            self._adapt()

    def metrics(self) -> Mapping[str, float]:
        """Prompts skipped, the keep probabilities and the dead shares of the last batch."""
        return {
            "skipped": float(self.skipped),
            "keep_easy": self.keep_easy,
            "keep_hard": self.keep_hard,
            "easy_share": self.shares[0],
            "hard_share": self.shares[1],
        }

    def _adapt(self) -> None:
        # Before prompts come back none can have been skipped: the dead share says nothing of p.
        if not self.revisiting:
            return
        self.keep_easy = self._moved(self.keep_easy, self.shares[0] >= self.target / 3)
        self.keep_hard = self._moved(self.keep_hard, self.shares[1] >= self.target * 2 / 3)

    def _moved(self, keep: float, too_many: bool) -> float:
        return min(max(keep + (-self.adapt if too_many else self.adapt), LOWEST), HIGHEST)

    def _dead(self, group: Group) -> tuple[bool, bool]:
        mean = float(np.mean(rewards(group)))
        # Means of rewards such as 0.1 are rounded.
        return mean >= self.easy - 1e-6, mean <= self.hard + 1e-6
