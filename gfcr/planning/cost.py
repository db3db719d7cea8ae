"""Estimates the cost of a study's arms from earlier runs with the same settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from statistics import fmean

from gfcr.leaderboard.measure import heldout, result_of
from gfcr.ledger import EVALUATION
from gfcr.planning.history import Family, family, family_of
from gfcr.sweep import Trial
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """The cost of an update and of a held-out answer; seconds are NaN if all runs shared cores."""

    runs: int
    tokens_per_update: float
    seconds_per_update: float
    tokens_per_answer: float
    seconds_per_answer: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """One arm and the expected cost of its runs; None is unknown."""

    arm: str
    strategy: str
    seeds: tuple[int, ...]
    finished: int
    """The number of runs that have finished and need not be made again."""
    updates: int
    """The updates of each run; a budget may end it earlier."""
    bounded: bool
    """Whether a budget may end the runs before their last update."""
    tokens: float | None
    """The tokens that one run generates, evaluations included."""
    seconds: float | None
    """The seconds of one run, without the start of the engine."""
    source: str
    """What the expectation is based on."""
    nearest: tuple[str, ...] = ()
    """If the cost is unknown, the keys in which the most similar finished run differs."""

    @property
    def open(self) -> int:
        """The number of runs still to make."""
        return len(self.seeds) - self.finished


def plan_arm(trials: Sequence[Trial], *, history: Sequence[RunRecord], probes: bool) -> ArmPlan:
    """Returns the expected cost of one arm's trials.

    Args:
        trials: the trials of the arm.
        history: finished runs of any kind; those of the arm's family are used.
        probes: whether `history` has the runs of a calibration.
    """
    first = trials[0]
    wanted = family_of(first)
    ended = [r for r in history if r.status == "finished"]
    unit = unit_cost([r for r in ended if family(r.params) == wanted])
    answers = _evaluations(first) * first.config.evaluation.prompts
    answers *= first.config.evaluation.samples
    budget = first.config.budget
    return ArmPlan(
        arm=first.config.name,
        strategy=str(first.config.strategy["name"]),
        seeds=tuple(t.config.seed for t in trials),
        finished=sum(_finished(t) for t in trials),
        updates=first.updates,
        bounded=any(
            b is not None for b in (budget.generated_tokens, budget.seconds, budget.verifier_calls)
        ),
        tokens=unit and first.updates * unit.tokens_per_update + answers * unit.tokens_per_answer,
        seconds=None
        if unit is None or isnan(unit.seconds_per_update)
        else first.updates * unit.seconds_per_update + answers * unit.seconds_per_answer,
        source=_source(unit, probes=probes),
        nearest=() if unit else _nearest(wanted, [family(r.params) for r in ended]),
    )


def unit_cost(runs: Sequence[RunRecord]) -> UnitCost | None:
    """Returns means over finished runs with at least one update; None without any."""
    results = [
        (result_of(r), heldout(r).get("n", 0))
        for r in runs
        if r.status == "finished" and result_of(r).get("updates")
    ]
    if not results:
        return None
    answered = [max(1, len(result["curve"]) * n) for result, n in results]
    trained_s = [result["time"].get("step_s", 0.0) for result, _ in results]
    spent = [result["tokens"].get(EVALUATION, 0) for result, _ in results]
    rows = list(zip((result for result, _ in results), answered, trained_s, spent, strict=True))
    # Others added to the seconds of a run that shared cores with them.
    alone = [row for row in rows if isfinite(row[0]["wall_s"])]
    return UnitCost(
        runs=len(rows),
        tokens_per_update=fmean(
            (r["tokens"]["generated"] - e) / r["updates"] for r, _, _, e in rows
        ),
        seconds_per_update=_mean([s / r["updates"] for r, _, s, _ in alone]),
        tokens_per_answer=fmean(e / n for _, n, _, e in rows),
        seconds_per_answer=_mean([max(0.0, r["wall_s"] - s) / n for r, n, s, _ in alone]),
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else nan


def _nearest(wanted: Family, families: Sequence[Family]) -> tuple[str, ...]:
    differing = [tuple(sorted({key for key, _ in wanted ^ other})) for other in families]
    return min(differing, key=lambda keys: (len(keys), keys), default=())


def _evaluations(trial: Trial) -> int:
    every = trial.config.evaluation.every
    # Before and after training, and after every `every` updates in between.
    return 2 + ((trial.updates - 1) // every if every else 0)


def _finished(trial: Trial) -> bool:
    result = RunFolder(trial.folder).result()
    return result is not None and result["status"] == "finished"


def _source(unit: UnitCost | None, *, probes: bool) -> str:
    if unit is None:
        return "unknown"
    if probes:
        return "calibration"
    return f"{unit.runs} run{'s' if unit.runs > 1 else ''}"
