"""The scores of a design, by levels. Shape suffix: `_SP` seeds by prompts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import ConfigError
from gfcr.leaderboard.measure import declared_bounds, scores_of, section_of, shared_prompts
from gfcr.leaderboard.readings import limits_of
from gfcr.stats import bounds_of
from gfcr.stats.interval import Table, table
from gfcr.tracking.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """One table of held-out scores for every arm of a design, same seeds and prompts."""

    factors: Mapping[str, Sequence[str]]
    """The levels of each factor, the reference first."""
    arms: Mapping[frozenset[tuple[str, str]], str]
    """The arm's name, by its chosen (factor, level) pairs."""
    scores: Mapping[str, Table]
    """The scores `_SP` of each arm."""
    seeds: tuple[int, ...]
    span: float = inf
    """The largest size that a difference between two arms can have."""

    def at(self, levels: Mapping[str, str]) -> Table:
        """Returns the scores `_SP` at one level of every factor."""
        return self.scores[self.arms[frozenset(levels.items())]]

    @property
    def full(self) -> bool:
        """Returns whether there is an arm for every combination of levels."""
        return len(self.arms) == prod(len(levels) for levels in self.factors.values())

    @property
    def orthogonal(self) -> bool:
        """Returns whether any two factors' levels meet equally often, which tells effects apart."""
        for one, other in combinations(self.factors, 2):
            met = Counter((dict(pairs)[one], dict(pairs)[other]) for pairs in self.arms)
            cells = len(self.factors[one]) * len(self.factors[other])
            if len(met) < cells or len(set(met.values())) > 1:
                return False
        return True

    def need_full(self) -> None:
        """Raises ConfigError unless every combination of levels is there."""
        if not self.full:
            raise ConfigError("this needs every combination of levels: give the study design full.")

    def where(self, levels: Mapping[str, str]) -> Table:
        """Returns the mean scores `_SP` of the arms at one level of some factors."""
        found = [arm for chosen, arm in self.arms.items() if chosen >= {*levels.items()}]
        return np.mean([self.scores[arm] for arm in found], axis=0)

    @property
    def reference(self) -> dict[str, str]:
        """The first level of every factor."""
        return {factor: levels[0] for factor, levels in self.factors.items()}

    def answers(self) -> NDArray[np.float64]:
        """Returns all scores, seeds by the levels of each factor by prompts."""
        shape = [len(levels) for levels in self.factors.values()]
        chosen = product(*self.factors.values())
        tables = [self.at(dict(zip(self.factors, c, strict=True))) for c in chosen]
        return np.stack(tables, axis=1).reshape(len(self.seeds), *shape, -1)


def crossed(
    arms: Mapping[str, Sequence[RunRecord]],
    *,
    levels: Mapping[str, Mapping[str, str]],
) -> Crossed:
    """Collects the scores of the seeds that all arms have, at prompts that all could be scored at.

    A prompt with an answer that nobody could score is left out of every arm: it is worth no reward.

    Args:
        arms: finished runs by arm.
        levels: the level of each factor, by arm; the first arm has the reference levels.

    Raises:
        ConfigError: the study has no factors, an arm has no run of the shared seeds, or no prompt
            is left.
    """
    if not levels:
        raise ConfigError("effects need crossed factors: give the study `factors`.")
    missing = [arm for arm in levels if not arms.get(arm)]
    if missing:
        raise ConfigError(
            f"no finished run of {', '.join(missing)}, and effects are of all arms: run the study. "
            "What was run and is left out has its reason in study.leaderboard()."
        )
    held = [{r.seed for r in arms[arm]} for arm in levels]
    seeds = sorted(held[0].intersection(*held[1:]))
    if not seeds:
        raise ConfigError("the arms have no seed in common: run the same seeds in all of them.")
    runs = {arm: [r for s in seeds for r in arms[arm] if r.seed == s] for arm in levels}
    every = [r for found in runs.values() for r in found]
    lost = {prompt for run in every for prompt in section_of(run, "unscorable")}
    prompts = [prompt for prompt in shared_prompts(every) if prompt not in lost]
    if lost and not prompts:
        raise ConfigError(
            "no prompt's held-out answers could be scored in all runs: mend the verifier (`gfcr "
            "rollouts RUN` shows what it said), and run the study again."
        )
    lowest = limits_of(every)[0]
    scores = {
        arm: table(scores_of(found, prompts=prompts, unscored=lowest))
        for arm, found in runs.items()
    }
    declared = declared_bounds(every)
    low, high = bounds_of(*scores.values(), declared=declared)
    named = next(iter(levels.values()))
    return Crossed(
        factors={f: list(dict.fromkeys(of[f] for of in levels.values())) for f in named},
        arms={frozenset(levels[arm].items()): arm for arm in runs},
        scores=scores,
        seeds=tuple(seeds),
        span=high - low,
    )
