"""Thousands of simulated studies at once, judged by the functions that the leaderboard uses.

Shape suffixes: `R` studies, `K` arms, `S` seeds, `P` prompts; `_RKSP` scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gfcr.stats import holm
from gfcr.stats.interval import Spread, inner_half, spread, two_sided
from gfcr.stats.power import Components, power
from gfcr.stats.share import share_limits
from tests.campaign.noises import BINARY, EFFECTS, NOISES, SHARES, Draw, Scores, everywhere

SEED = 20261122
MOST = 20
"""Seeds at which those who add some until there is a verdict give up."""
_CELLS = 4_000_000
"""Scores held at once."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Studies against their last arm: differences, errors and p-values, `_RK`."""

    found: Spread
    error: NDArray[np.float64]
    p_value: NDArray[np.float64]

    def false(self, *, arms: int) -> NDArray[np.bool_]:
        """Whether a study of so many arms names any as better or worse.

        Holm rejects something exactly when it rejects the smallest p-value.
        """
        compared = arms - 1
        return self.p_value[:, :compared].min(1) * compared < 0.05

    def equivalent(self, *, margin: float, span: float = 1.0) -> NDArray[np.bool_]:
        """Whether each comparison's inner interval lies inside the margin."""
        unseen = span / self.found.prompts
        half = inner_half(self.error, df=self.found.df, level=0.05, unseen=unseen)
        return np.abs(self.found.mean) + half < margin


def judge(scores: Scores, *, share: bool) -> Judged:
    """Compares every arm but the last with the last."""
    difference = np.asarray(scores[:, :-1], np.float64) - scores[:, -1:]
    found = spread(difference)
    scale = np.abs(scores).max((1, 2, 3))[:, None]
    error = found.error(scale=scale, span=1.0 if share else np.inf)
    return Judged(found=found, error=error, p_value=two_sided(found.mean, error=error, df=found.df))


def studies(
    draw: Draw, *, of: int, arms: int, seeds: int, prompts: int, entropy: Sequence[int]
) -> Iterator[Scores]:
    """Draws `of` studies, in parts that fit in memory."""
    rng, most = np.random.default_rng([SEED, *entropy]), max(1, _CELLS // (arms * seeds * prompts))
    for begin in range(0, of, most):
        yield draw(rng, shape=(min(most, of - begin), arms, seeds, prompts))


def false_verdicts(
    noise: str, *, of: int, seeds: int, prompts: int, arms: Sequence[int]
) -> dict[int, int]:
    """Returns, by number of arms, how many A/A studies say better or worse of any."""
    wrong = dict.fromkeys(arms, 0)
    entropy = (1, [*NOISES].index(noise), seeds, prompts)
    share = noise in BINARY and "form" not in noise
    for scores in studies(
        NOISES[noise], of=of, arms=max(arms), seeds=seeds, prompts=prompts, entropy=entropy
    ):
        judged = judge(scores, share=share)
        for k in arms:
            wrong[k] += int(judged.false(arms=k).sum())
    return wrong


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """How many A/A studies say better or worse."""

    first: int
    """At the first look."""
    ever: int
    """At any look."""


def stopped_when_told(
    noise: str, *, of: int, prompts: int, arms: int, add: int, begin: int
) -> Stopped:
    """Returns how many A/A studies say better or worse when seeds are added until they do.

    There are `begin` seeds at the first look and `add` more at each further one, `MOST` at the
    last.
    """
    share = noise in BINARY and "form" not in noise
    entropy = (6, [*NOISES].index(noise), prompts)
    first = ever = 0
    for scores in studies(
        NOISES[noise], of=of, arms=arms, seeds=MOST, prompts=prompts, entropy=entropy
    ):
        told = [
            judge(scores[:, :, :seeds], share=share).false(arms=arms)
            for seeds in range(begin, MOST + 1, add)
        ]
        first += int(told[0].sum())
        ever += int(np.any(told, axis=0).sum())
    return Stopped(first=first, ever=ever)


def false_equivalence(kind: str, *, of: int, margin: float, seeds: int, prompts: int) -> int:
    """Returns how many arms that differ by exactly the margin are called equivalent."""
    draw, entropy = EFFECTS[kind], (2, [*EFFECTS].index(kind), seeds, prompts, int(margin * 1000))
    return sum(
        int(judge(scores, share=True).equivalent(margin=margin).sum())
        for scores in studies(
            partial(draw, effect=margin),
            of=of,
            arms=2,
            seeds=seeds,
            prompts=prompts,
            entropy=entropy,
        )
    )


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Of 95 % intervals."""

    share: float
    """Intervals of an arm's share that hold the true one."""
    outside: int
    """Limits outside [0, 1]."""
    difference: float
    """Intervals of the difference of two equal arms that hold 0."""
    width: float
    """Mean width of the share's."""


def coverage(noise: str, *, of: int, seeds: int, prompts: int) -> Coverage:
    """Returns how often intervals hold what they are of; three arms a study."""
    draw, entropy = SHARES[noise], (3, [*SHARES].index(noise), seeds, prompts)
    truth = _truth(noise)
    held = outside = around = 0
    width = 0.0
    for scores in studies(draw, of=of, arms=3, seeds=seeds, prompts=prompts, entropy=entropy):
        low, high = share_limits(spread(np.asarray(scores[:, 0], np.float64)), level=0.95)
        held += int(((low <= truth) & (truth <= high)).sum())
        outside += int(((low < 0) | (high > 1)).sum())
        width += float((high - low).sum())
        around += int((judge(scores[:, 1:], share=True).p_value >= 0.05).sum())
    return Coverage(share=held / of, outside=outside, difference=around / of, width=width / of)


def _truth(noise: str) -> float:
    """The share over all prompts and runs, from many of them, to 0.001."""
    rng = np.random.default_rng([SEED, 4])
    return float(SHARES[noise](rng, shape=(600_000, 1, 1, 1)).mean())


@dataclass(frozen=True, kw_only=True)
class Found:
    """What became of a planted effect."""

    better: float
    worse: float
    planned: float
    """What `gfcr plan` says of these components."""


def planted(*, effect: float, of: int, arms: int, seeds: int, prompts: int) -> Found:
    """Returns how often the one better arm is called so; runs of an arm differ by 0.02."""
    entropy = (5, arms, seeds, prompts, int(effect * 1000))
    better = worse = 0
    mix: list[Components] = []
    for scores in studies(
        partial(everywhere, effect=effect, luck=0.02),
        of=of,
        arms=arms,
        seeds=seeds,
        prompts=prompts,
        entropy=entropy,
    ):
        judged = judge(scores, share=True)
        told = np.array([holm(row.tolist())[0] < 0.05 for row in judged.p_value])
        up = judged.found.mean[:, 0] > 0
        better, worse = better + int((told & up).sum()), worse + int((told & ~up).sum())
        mix.append(_mixed(judged.found))
    mean = Components(
        seed=float(np.mean([m.seed for m in mix])),
        prompt=0.0,
        residual=float(np.mean([m.residual for m in mix])),
    )
    stated = power(effect, components=mean, seeds=seeds, prompts=prompts, alpha=0.05 / (arms - 1))
    return Found(better=better / of, worse=worse / of, planned=stated)


def _mixed(found: Spread) -> Components:
    """Mean components of the first arm's differences over studies."""
    cell = float(found.cell[:, 0].mean())
    seed = float(found.by_seed[:, 0].mean()) - cell
    return Components(
        seed=max(0.0, seed) * found.seeds, prompt=0.0, residual=cell * found.seeds * found.prompts
    )
