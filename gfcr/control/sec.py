"""Learns which category of prompts to draw from, as a bandit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import ClassVar, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.handles.prompts import TrainingSet, rewards, training_set
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Positive, SomeShare, Word


@final
@dataclass(kw_only=True)
class Sec(Control, Selector, Observer):
    """Draws each prompt's category by Boltzmann's law of what categories taught, and one of it.

    A category's reward r in a batch is the mean of |A| over its rollouts, A = (reward - mean) /
    std of the group; a dead group counts 0. Q <- (1 - rate) Q + rate r for the categories of the
    batch, Q = 0 at first; a category is drawn with probability exp(Q / temperature) / sum.

    Within a category prompts come in a random order, each once before the first comes again.
    Looks at the whole training set once. Hurts with many categories (each is visited rarely) and
    where they do not tell what is learnable; with |A| normalised, a rate of 1/8 counts almost as
    much as one of 1/2.
    """

    paper: ClassVar[str] = "2505.14970"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"

    by: Word = ""
    """Column of the prompts that names their category; without one it is the
    prompt's length in tokens, in steps of a factor of sqrt(2), which is ours."""
    rate: SomeShare = 0.5
    temperature: Positive = 1.0
    """Authors' scripts: 1 (Countdown), 0.4 (mathematics)."""
    pool: TrainingSet = field(init=False, default_factory=TrainingSet)
    values: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """Category -> Q."""
    queues: dict[str, list[int]] = field(init=False, default_factory=dict[str, list[int]])
    """Category -> places in `pool` that are left in this pass, the next one last."""
    passes: dict[str, int] = field(init=False, default_factory=dict[str, int])
    taken: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """Category -> prompts taken for the batch."""

    @property
    def reads_columns(self) -> Sequence[str]:
        return (self.by,) if self.by else ()

    def category(self, prompt: Prompt) -> str:
        """Returns the category of a prompt.

        Raises:
            ConfigError: it has not the column.
        """
        if not self.by:
            return f"length_{2 ** (round(2 * log2(max(len(prompt.tokens), 1))) / 2):.0f}"
        if self.by not in prompt.columns:
            has = ", ".join(sorted(prompt.columns)) or "none"
            raise ConfigError(
                f"sec.by={self.by!r}: prompt {prompt.id!r} has no such column (it has: {has}). Name"
                " one with strategy.controls.sec.by, or leave it empty for the prompt's length."
            )
        return str(prompt.columns[self.by])

    def probabilities(self) -> Mapping[str, float]:
        """Returns the probability with which each category is drawn."""
        names = sorted(self.values)
        scaled = np.array([self.values[name] for name in names]) / self.temperature
        # The largest is taken off, which changes no probability, so that none overflows.
        weights = np.exp(scaled - scaled.max(initial=-np.inf))
        return dict(zip(names, (weights / weights.sum()).tolist(), strict=True))

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if not self.pool.prompts:
            self.pool = training_set(view)
            self.values = dict.fromkeys(sorted(map(self.category, self.pool.prompts)), 0.0)
        law = self.probabilities()
        drawn = view.rng("sec", view.round).choice(len(law), size=num, p=list(law.values()))
        names = [list(law)[int(i)] for i in drawn]
        self.taken = self.taken if view.round else {}
        for name in names:
            self.taken[name] = self.taken.get(name, 0.0) + 1
        return [self._next(name, view=view) for name in names]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        found: dict[str, list[float]] = {}
        for group in harvest.groups:
            found.setdefault(self.category(group.prompt), []).extend(magnitudes(rewards(group)))
        for name, sizes in found.items():
            if sizes:
                before = self.values.get(name, 0.0)
                self.values[name] = before + self.rate * (float(np.mean(sizes)) - before)

    def metrics(self) -> Mapping[str, float]:
        """Number of categories; up to 32, Q of each and the share of the batch that is of it."""
        number = {"categories": float(len(self.values))}
        if len(self.values) > 32:
            return number
        total = max(sum(self.taken.values()), 1)
        shares = {f"share_{_word(n)}": self.taken.get(n, 0.0) / total for n in self.values}
        return {f"q_{_word(n)}": q for n, q in self.values.items()} | shares | number

    def _next(self, name: str, *, view: View) -> Prompt:
        if not self.queues.get(name):
            places = [i for i, p in enumerate(self.pool.prompts) if self.category(p) == name]
            self.passes[name] = self.passes.get(name, 0) + 1
            rng = view.rng("sec", "pass", name, self.passes[name])
            self.queues[name] = [int(i) for i in rng.permutation(places)]
        return self.pool.prompts[self.queues[name].pop()]


def magnitudes(scored: Sequence[float]) -> list[float]:
    """|A| of each rollout of a group, A normalised as in GRPO; 0 where all are alike."""
    spread = float(np.std(scored, ddof=1)) if len(scored) > 1 else 0.0
    # Equal rewards such as 0.1 have a deviation of float noise, by which |A| would be about 1.
    if spread <= 1e-6:
        return [0.0] * len(scored)
    mean = sum(scored) / len(scored)
    return [abs(reward - mean) / spread for reward in scored]


def _word(name: str) -> str:
    """A category as a part of a metric's name."""
    return "".join(c if c.isalnum() else "_" for c in name)[:40] or "_"
