"""Divides a batch's rollouts so that its gradient varies least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, Literal, final

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from gfcr.control._bounds import outside
from gfcr.control._division import divide
from gfcr.control._neighbours import ngram_features, posterior_mean
from gfcr.control._outcomes import outcomes
from gfcr.control._rounds import Resizes
from gfcr.errors import ConfigError
from gfcr.part import Recipe
from gfcr.stages import Control, Harvest, Job, Observer, View
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Finite

LEAST: Final = {"rloo": 2, "dr_grpo": 3}
"""Rollouts from which on the variance is convex in their number."""


@final
@dataclass(kw_only=True)
class Vip(Control, Resizes, Observer):
    """Divides the uniform budget so that the variance of the batch's gradient is least.

        min sum_i v(n_i) p_i (1-p_i),   low <= n_i <= high, sum n_i = uniform budget
        v(n) = (n-1)/n^2 for the advantages of dr_grpo, 1/(n-1) for those of rloo

    v is convex, so rollouts handed out one by one, each where it lowers the sum most, reach the
    minimum over whole numbers (the paper: bisection on the multiplier, then rounding). p comes from
    a Gaussian process over what prompts look like, so that prompts never seen have one too. Give
    the advantage map the same `kind`, and put `equal_prompts` behind it: the variance is that of a
    mean over prompts.

    Our own: features are hashed n-grams of tokens (the paper: a sentence encoder), and the process
    is fitted to the last visits of `memory` prompts (the paper: recursive updates).

    Hurts where prompts near p = 1/2 are not the ones worth learning; where prompts look alike and
    differ in difficulty, p is little more than the mean.
    """

    paper: ClassVar[str] = "2602.01601"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "ours"

    kind: Literal["rloo", "dr_grpo"] = "rloo"
    low: Annotated[int, Interval(ge=2, le=100000)] = 3
    high: Count = 32
    memory: Count = 512
    """Prompts whose last visits the process is fitted to; seconds an update from 4096 on."""
    scale: Annotated[float, Interval(ge=0.01, le=100)] = 0.5
    """Distance at which prompts are alike; 0 is the same prompt, 1.41 is nothing in common."""
    clip: Annotated[float, Interval(ge=0, lt=0.5)] = 0.02
    """p is at least this far from 0 and from 1."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    seen: dict[str, tuple[tuple[int, ...], int, int]] = field(
        init=False, default_factory=dict[str, tuple[tuple[int, ...], int, int]]
    )
    """Prompt id -> tokens, right and scored rollouts of its last visit; latest last."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def __post_init__(self) -> None:
        least = LEAST[self.kind]
        if not least <= self.low <= self.high:
            raise ConfigError(
                f"vip.low={self.low} with vip.kind={self.kind!r}, vip.high={self.high}: give low "
                f"from {least} (below, the variance is not convex in the rollouts) to high."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return outside(strategy, low=self.low, high=self.high)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        fresh = [i for i, job in enumerate(jobs) if not job.resume]
        if not fresh:
            return jobs
        rates_P = self.rates([jobs[i].prompt for i in fresh])
        given = self.divide(rates_P, total=view.group_size * len(fresh))
        self.last = _told(rates_P, given)
        shares = dict(zip(fresh, given, strict=True))
        return [
            replace(job, num_samples=shares.get(i, job.num_samples)) for i, job in enumerate(jobs)
        ]

    def divide(self, rates_P: NDArray[np.float64], *, total: int) -> list[int]:
        """Rollouts of prompts with these success rates, `total` in all."""
        n = np.arange(self.low, self.high + 1, dtype=np.float64)
        v = 1 / (n - 1) if self.kind == "rloo" else (n - 1) / n**2
        spread_P = rates_P * (1 - rates_P)
        return divide(-spread_P[:, None] * v[None], low=self.low, total=total)

    def rates(self, prompts: Sequence[Prompt]) -> NDArray[np.float64]:
        """Success rates that prompts are expected to have."""
        counts = np.array([visit[1:] for visit in self.seen.values()], np.float64).reshape(-1, 2)
        # With the variance below this is the posterior under Jeffreys' prior, Beta(1/2, 1/2): the
        # variance is never 0, and the process can be solved.
        rates_M = (counts[:, 0] + 0.5) / (counts[:, 1] + 1)
        known = [ngram_features(tokens) for tokens, _, _ in self.seen.values()]
        mean_P = posterior_mean(
            np.array(known),
            rates_M,
            rates_M * (1 - rates_M) / (counts[:, 1] + 2),
            np.array([ngram_features(prompt.tokens) for prompt in prompts]),
            scale=self.scale,
        )
        return np.clip(mean_P, self.clip, 1 - self.clip)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            right, scored = outcomes(group, threshold=self.threshold)
            if scored:
                # It is taken out first, as a dict keeps the place of a key that is set anew.
                self.seen.pop(group.prompt.id, None)
                self.seen[group.prompt.id] = (tuple(group.prompt.tokens), right, scored)
        for old in list(self.seen)[: max(0, len(self.seen) - self.memory)]:
            del self.seen[old]

    def metrics(self) -> Mapping[str, float]:
        """Expected rates of the prompts last begun; the least, the most and all they were given."""
        return self.last


def _told(rates_P: NDArray[np.float64], given: Sequence[int]) -> dict[str, float]:
    return {
        "rate": float(rates_P.mean()),
        "rate_std": float(rates_P.std()),
        "least": float(min(given)),
        "most": float(max(given)),
        "total": float(sum(given)),
    }
