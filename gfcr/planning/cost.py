"""Estimates the cost of a study's arms from earlier runs with the same settings."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, isfinite, isnan, nan
from statistics import fmean

from gfcr.leaderboard.measure import answers_of, result_of
from gfcr.ledger import EVALUATION
from gfcr.planning.history import Family, family, family_of
from gfcr.sweep import Trial
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
    stopped: int
    """The number of runs that the study's stopping rule has ended early, for good."""
    updates: int
    """The updates of each run, as many as its budget of tokens and seconds is known to pay for."""
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
        return len(self.seeds) - self.finished - self.stopped


def plan_arm(
    trials: Sequence[Trial], *, history: Sequence[RunRecord], probes: bool, stops: bool
) -> ArmPlan:
    """Returns the expected cost of one arm's trials.

    Args:
        trials: the trials of the arm.
        history: finished runs of any kind; those of the arm's family are used.
        probes: whether `history` has the runs of a calibration.
        stops: whether the study has a stopping rule; without one, stopped runs go on.
    """
    first = trials[0]
    wanted = family_of(first)
    ended = [r for r in history if r.status == "finished"]
    unit = unit_cost([r for r in ended if family(r.params) == wanted])
    evaluation, budget = first.config.evaluation, first.config.budget
    updates = _updates(first, unit)
    # Before and after training, and after every `every` updates in between.
    times = 2 + ((updates - 1) // evaluation.every if evaluation.every else 0)
    answers = times * evaluation.prompts * evaluation.samples
    return ArmPlan(
        arm=first.config.name,
        strategy=str(first.config.strategy["name"]),
        seeds=tuple(t.config.seed for t in trials),
        finished=sum(t.status == "finished" for t in trials),
        stopped=sum(t.status == "stopped" for t in trials) if stops else 0,
        updates=updates,
        bounded=any(bound is not None for bound in asdict(budget).values()),
        tokens=unit and updates * unit.tokens_per_update + answers * unit.tokens_per_answer,
        seconds=None
        if unit is None or isnan(unit.seconds_per_update)
        else updates * unit.seconds_per_update + answers * unit.seconds_per_answer,
        source=_source(unit, probes=probes),
        nearest=() if unit else _nearest(wanted, [family(r.params) for r in ended]),
    )


def unit_cost(runs: Sequence[RunRecord]) -> UnitCost | None:
    """Returns means over finished runs with at least one update; None without any."""
    if not (held := [r for r in runs if r.status == "finished" and result_of(r).get("updates")]):
        return None
    answered = [max(1, len(result_of(r)["curve"]) * answers_of(r)) for r in held]
    trained_s = [result_of(r)["time"].get("step_s", 0.0) for r in held]
    spent = [result_of(r)["tokens"].get(EVALUATION, 0) for r in held]
    rows = list(zip(map(result_of, held), answered, trained_s, spent, strict=True))
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


def _updates(trial: Trial, unit: UnitCost | None) -> int:
    if unit is None:
        return trial.updates
    budget, evaluation = trial.config.budget, trial.config.evaluation
    # Evaluations take of the seconds, one before training and one after every `every` updates.
    asked_s = evaluation.prompts * evaluation.samples * unit.seconds_per_answer
    update_s = unit.seconds_per_update + (asked_s / evaluation.every if evaluation.every else 0.0)
    seconds = None if budget.seconds is None else max(0.0, budget.seconds - asked_s)
    bounds = (budget.generated_tokens, unit.tokens_per_update), (seconds, update_s)
    # The update that uses a budget up is made to its end.
    paid = (ceil(bound / cost) for bound, cost in bounds if bound is not None and cost > 0)
    return min([trial.updates, *paid])


def _source(unit: UnitCost | None, *, probes: bool) -> str:
    if unit is None:
        return "unknown"
    if probes:
        return "calibration"
    return f"{unit.runs} run{'s' if unit.runs > 1 else ''}"
