"""How much sooner a study names its winner when it stops arms early, on recorded curves.

A finished study, every arm run to its end, is played again under a stopping rule: the runs are cut
where the rule would have paused them. Each resample draws the seeds with replacement, the same for
all arms, and, where more arms are recorded than asked for, as many of them without. The whole
resample, run to its end, says which arm wins; the rule has kept it or not.
"""

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isnan
from statistics import fmean
from typing import Any, TypeAlias, final

import numpy as np

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.experiment.source import Pause
from gfcr.search.base import Length, Round, StoppingRule
from gfcr.tracking.curve import floored
from gfcr.tracking.records import RunRecord

Point: TypeAlias = Sequence[float]
"""(update, generated tokens, seconds, held-out score)."""
Curves: TypeAlias = Mapping[str, Mapping[int, Sequence[Point]]]
"""Arm -> seed -> the course of its run."""

_SEED = 20261120


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """One resample under a rule, and run to its end."""

    kept: bool
    """Whether the arm that wins when all are run to the end also wins under the rule."""
    regret: float
    """How far the arm that wins under the rule scores below that winner, at the end."""
    seconds: float
    """Share of the seconds of running all to the end; so are tokens."""
    tokens: float
    agreement: float
    """Kendall's tau-b of the two rankings of all arms. Under the rule, an arm ranks below all that
    the rule kept longer; among those it gave up together, and at the end, scores decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A finished study's curves."""

    study: str
    baseline: str
    curves: Curves
    left_out: tuple[str, ...] = ()
    """Runs that could not be used, and why."""

    @property
    def one(self) -> Sequence[Point]:
        """One run's curve."""
        return next(iter(next(iter(self.curves.values())).values()))

    @property
    def tokens(self) -> int:
        """The most tokens a run generated."""
        return max(int(c[-1][1]) for by_seed in self.curves.values() for c in by_seed.values())

    @property
    def spacing(self) -> float:
        """The first held-out score after the start, as a share of a run's updates."""
        return self.one[1][0] / self.one[-1][0]

    @property
    def seeds(self) -> list[int]:
        """The seeds, which all arms have."""
        return sorted(next(iter(self.curves.values())))


def read(records: Sequence[RunRecord], *, baseline: str | None = None) -> Recorded:
    """Reads the curves of one study's runs, over the seeds that all arms have finished.

    Raises:
        ConfigError: fewer than 3 arms or 2 such seeds, or runs of several studies or specs.
    """
    studies = sorted({r.study for r in records})
    if len(studies) != 1:
        raise ConfigError(f"runs of {len(studies)} studies ({', '.join(studies)}): name one.")
    found: dict[str, dict[int, Sequence[Point]]] = {}
    out: list[str] = []
    for run in records:
        curve = [] if run.damage else floored(run.result or {})
        if run.damage:
            out.append(f"{run.arm}/{run.seed}: {run.damage}")
        elif run.status == "finished" and len(curve) > 1 and np.isfinite(np.asarray(curve)).all():
            found.setdefault(run.arm, {})[run.seed] = curve
        else:
            out.append(f"{run.arm}/{run.seed}: {run.status}, {len(curve)} evaluations")
    ended = {(r.arm, r.tags.get("gfcr.spec_hash")) for r in records if r.status == "finished"}
    specs = Counter(arm for arm, _ in ended)
    if mixed := [arm for arm in specs if specs[arm] > 1]:
        raise ConfigError(
            f"study {studies[0]}: {', '.join(sorted(mixed))} has finished runs of several specs: "
            "give the study's YAML file, whose own runs are read."
        )
    shared = set[int].intersection(*(set(c) for c in found.values())) if found else set[int]()
    if len(found) < 3 or len(shared) < 2:
        raise ConfigError(
            f"study {studies[0]}: {len(found)} arms with a whole curve and {len(shared)} seeds "
            "that all of them finished: a ranking needs 3 and 2 or more. Run the study to its end, "
            "without `stopping` and with `evaluation.every`."
        )
    named = {r.tags.get("gfcr.baseline", "") for r in records if not r.damage}
    reference = baseline or (named.pop() if len(named) == 1 else "") or next(iter(found))
    if reference not in found:
        raise ConfigError(f"baseline={reference!r} has no whole curve. Arms: {', '.join(found)}.")
    curves = {arm: {s: by_seed[s] for s in sorted(shared)} for arm, by_seed in found.items()}
    return Recorded(study=studies[0], baseline=reference, curves=curves, left_out=tuple(out))


def rules_for(recorded: Recorded) -> list[StoppingRule]:
    """Returns successive halving with every factor and first rung that the curves allow.

    Rungs count updates where all runs made as many, else tokens (a token budget ended them).
    """
    ends = {int(c[-1][0]) for by_seed in recorded.curves.values() for c in by_seed.values()}
    if len(ends) == 1:
        resource, firsts = "updates", [int(p[0]) for p in recorded.one[1:-1]]
    else:
        resource = "generated_tokens"
        firsts = sorted({int(recorded.tokens / n) for n in (32, 24, 16, 12, 8, 6, 4, 3, 2)})
    total = ends.pop() if len(ends) == 1 else recorded.tokens
    rules: list[StoppingRule] = [
        registry.build(
            "stopping", {"name": "halving", "first": n, "factor": factor, "resource": resource}
        )
        for factor in (2, 3, 4, 6)
        for n in firsts
        if 0 < n * 2 <= total
    ]
    if len(recorded.seeds) > 4:
        rules.append(registry.build("stopping", {"name": "wilcoxon", "p": 0.1}))
    return rules


def races(
    recorded: Recorded,
    *,
    rule: StoppingRule,
    arms: int,
    resamples: int,
    restart_s: float = 0.0,
    protect: bool = False,
) -> list[Race]:
    """Plays `resamples` resamples of the study under a rule.

    Args:
        recorded: the study.
        rule: when arms are given up.
        arms: arms in a resample, the baseline among them.
        resamples: how many.
        restart_s: seconds that a paused run needs to go on, which no curve tells.
        protect: run the baseline to its end, as a study does for its verdicts.
    """
    rng = np.random.default_rng(_SEED)
    others = [arm for arm in recorded.curves if arm != recorded.baseline]
    found: list[Race] = []
    for _ in range(resamples):
        chosen = rng.permutation(len(others))[: arms - 1]
        names = [recorded.baseline, *(others[int(i)] for i in sorted(chosen))]
        drawn = rng.choice(recorded.seeds, size=len(recorded.seeds))
        curves: dict[str, dict[int, Sequence[Point]]] = {
            arm: {n: recorded.curves[arm][int(seed)] for n, seed in enumerate(drawn)}
            for arm in names
        }
        play = _Play(
            curves=curves, protected=recorded.baseline if protect else None, restart_s=restart_s
        )
        found.append(play.race(rule))
    return found


def winner_agreement(recorded: Recorded, *, resamples: int) -> float:
    """Returns how often a resample run to its end has the winner of the study itself.

    What no rule can be asked to better: below 1, other seeds would have named another winner.
    """
    rng = np.random.default_rng(_SEED)
    ends = np.array([[c[s][-1][3] for s in recorded.seeds] for c in recorded.curves.values()])
    best = int(ends.mean(1).round(12).argmax())
    seeds = len(recorded.seeds)
    means = [ends[:, rng.integers(seeds, size=seeds)].mean(1).round(12) for _ in range(resamples)]
    return fmean(float(mean[best] == mean.max()) for mean in means)


def ends(curves: Curves) -> dict[str, float]:
    """Each arm's mean score at the end, without what rounding adds to sums."""
    scores = {arm: [c[-1][3] for c in by_seed.values()] for arm, by_seed in curves.items()}
    return {arm: round(fmean(own), 12) for arm, own in scores.items()}


@final
@dataclass(kw_only=True)
class _Play:
    """One resample."""

    curves: Curves
    protected: str | None
    restart_s: float

    def race(self, rule: StoppingRule) -> Race:
        """Plays it under the rule and to its end."""
        finalists, places, spent = self._under(rule)
        whole = ends(self.curves)
        best, named = max(whole.values()), max(whole[a] for a in finalists)
        ranks = {key: n for n, key in enumerate(sorted(set(places.values())))}
        return Race(
            kept=named == best,  # of arms that tie, any one is the winner
            regret=best - named,
            seconds=spent[0] / self._all(2),
            tokens=spent[1] / self._all(1),
            agreement=kendall([ranks[places[a]] for a in whole], list(whole.values())),
        )

    def _under(
        self, rule: StoppingRule
    ) -> tuple[list[str], dict[str, tuple[int, float]], tuple[float, float]]:
        """Arms run to the end; each arm's (round, score) by the rule; (seconds, tokens) spent."""
        rounds = self._rounds(rule)
        alive, places = list(self.curves), dict[str, tuple[int, float]]()
        at: dict[tuple[str, int], Point] = {}
        restarts, gone = 0, set[str]()
        for number, current in enumerate(rounds):
            for arm, seed in product(alive, current.seeds):
                restarts += (arm, seed) in at
                at[arm, seed] = _point(self.curves[arm][seed], until=current.until)
            scores = {a: {s: p[3] for (b, s), p in at.items() if a == b} for a in alive}
            # A protected arm goes on; its place is where the rule would have ended it.
            places |= {a: (number, fmean(scores[a].values())) for a in alive if a not in gone}
            if number < len(rounds) - 1 and len(alive) > 1:
                gone |= set(rule.give_up(scores))
                alive = [arm for arm in alive if arm not in gone or arm == self.protected]
        seconds = sum(p[2] for p in at.values()) + restarts * self.restart_s
        return alive, places, (seconds, sum(p[1] for p in at.values()))

    def _rounds(self, rule: StoppingRule) -> list[Round]:
        first = next(iter(self.curves.values()))
        one = first[0]
        tokens = max(int(c[-1][1]) for by_seed in self.curves.values() for c in by_seed.values())
        every = int(one[1][0] - one[0][0])
        length = Length(updates=int(one[-1][0]), generated_tokens=tokens, every=every)
        return rule.rounds(seeds=sorted(first), length=length)

    def _all(self, column: int) -> float:
        return sum(c[-1][column] for by_seed in self.curves.values() for c in by_seed.values())


def _point(curve: Sequence[Point], *, until: Pause | None) -> Point:
    return next((p for p in curve if until is not None and until.reached(p)), curve[-1])


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the tau-b of two rankings; 0 where all of one is tied."""
    stats: Any = importlib.import_module("scipy.stats")  # untyped
    tau = float(stats.kendalltau(one, other).statistic)
    return 0.0 if isnan(tau) else tau
