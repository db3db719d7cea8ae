"""From runs to a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gfcr.config import HELDOUT
from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard.arms import row_of
from gfcr.leaderboard.certificates import NOTES
from gfcr.leaderboard.measure import (
    budget_notes,
    declared_bounds,
    heldout,
    mean_of,
    scores_of,
    shared_prompts,
)
from gfcr.leaderboard.rows import Excluded, Leaderboard, Pareto, Row, Versus
from gfcr.leaderboard.screen import screen
from gfcr.leaderboard.selection import keep_rows, keep_runs, sort_out
from gfcr.leaderboard.targets import pareto, to_target
from gfcr.leaderboard.where import Where
from gfcr.statistics import Comparison, bounds_of, compare, holm, judge, noise_floor
from gfcr.statistics.interval import table
from gfcr.tracking.records import RunRecord

MARGIN = 0.02
_BY_CHANCE = "the interval excludes 0, but among this many arms one does so by chance too often"


def rank(
    records: Sequence[RunRecord],
    *,
    baseline: str | None = None,
    where: Sequence[str] = (),
    margin: float | None = None,
    target: float | None = None,
) -> Leaderboard:
    """Ranks runs that have been read. Arguments and errors as `build`."""
    expressions = sort_out([Where(text) for text in where], runs=records)
    records = keep_runs(records, where=expressions.of_runs, baseline=baseline)
    metric = _stated(records, "metric") or HELDOUT
    if margin is None:
        effect = _stated(records, "minimum_effect") if metric == HELDOUT else ""
        margin = float(effect or MARGIN)
    studies = sorted({record.study for record in records})
    if len(studies) > 1:
        records = [replace(r, arm=f"{r.study}/{r.arm}") for r in records]
    arms, excluded = screen(records, baseline=baseline)
    _check_baseline(baseline, arms=arms, excluded=excluded)
    rows = [row_of(arm, runs=runs) for arm, runs in arms.items()]
    _check_certified(baseline, rows=rows)
    if baseline is not None:
        stopped = {r.arm for r in records if r.status == "stopped"} - {*arms, baseline}
        rows = _judged(rows, arms=arms, baseline=baseline, margin=margin, stopped=len(stopped))
    if target is None and baseline is not None:
        target = mean_of(heldout(run)["accuracy"] for run in arms[baseline])
    if target is not None:
        rows = [replace(row, to_target=to_target(arms[row.arm], target=target)) for row in rows]
    floor = arms[baseline] if baseline is not None else []
    rows = keep_rows(_ordered(rows), where=expressions.of_rows, arms=arms, baseline=baseline)
    return Leaderboard(
        study=", ".join(studies),
        metric=metric,
        baseline=baseline,
        margin=margin,
        target=target,
        noise_floor=noise_floor(scores_of(floor, prompts=shared_prompts(floor))) if floor else None,
        rows=tuple(rows),
        excluded=tuple(sorted(excluded, key=lambda e: (e.arm, e.seed, e.run_id))),
    )


def _stated(records: Sequence[RunRecord], name: str) -> str:
    """What the study's file says; empty where its runs do not agree."""
    said = {run.tags.get(f"gfcr.{name}", "") for run in records}
    return said.pop() if len(said) == 1 else ""


def _check_baseline(
    baseline: str | None, *, arms: Iterable[str], excluded: Sequence[Excluded]
) -> None:
    if baseline is None or baseline in arms:
        return
    reasons = sorted({run.reason for run in excluded if run.arm == baseline})
    if not reasons:
        raise unknown_name(baseline, kind="baseline arm", allowed=arms)
    raise ConfigError(
        f"baseline={baseline!r} has no usable run ({'; '.join(reasons)}). Run it again, or name "
        f"another: {', '.join(sorted(arms))}."
    )


def _check_certified(baseline: str | None, *, rows: Sequence[Row]) -> None:
    if any(row.arm == baseline and row.certificate == "biased" for row in rows):
        raise ConfigError(
            f"baseline={baseline!r} cannot be compared with: {NOTES['biased']}. Name another arm."
        )


def _judged(
    rows: Sequence[Row],
    *,
    arms: Mapping[str, Sequence[RunRecord]],
    baseline: str,
    margin: float,
    stopped: int,
) -> list[Row]:
    """Adds the comparison with the baseline; p-values are corrected for the arms judged.

    Arms that a stopping rule gave up count among them with p = 1, which is never below what their
    whole runs would have had: the error rate is that of a study without the rule.
    """
    unequal = {
        row.arm: budget_notes(arms[row.arm], baseline=arms[baseline])
        for row in rows
        if row.arm != baseline
    }
    rows = [_without_rank(row, reasons=unequal.get(row.arm, [])) for row in rows]
    compared = {arm: _compared(arms[arm], baseline=arms[baseline]) for arm in unequal}
    ranked = {row.arm for row in rows if row.rank is not None}
    told = {arm: c for arm, c in compared.items() if c and c.pairs > 1 and arm in ranked}
    adjusted = holm([*(c.p_value for c in told.values()), *[1.0] * stopped])
    p_values = dict(zip(told, adjusted, strict=False))

    def versus(row: Row) -> Row:
        comparison = compared.get(row.arm)
        if comparison is None:
            missing = () if row.arm == baseline else (f"no seed in common with {baseline}",)
            return replace(row, notes=(*row.notes, *missing))
        p_value = p_values.get(row.arm, 1.0)
        verdict = judge(comparison, p_value=p_value, margin=margin)
        found = Versus(
            comparison=comparison,
            p_adjusted=p_value,
            verdict=verdict if row.arm in told else "inconclusive",
        )
        chance = [_BY_CHANCE] if comparison.p_value < 0.05 <= p_value and row.arm in told else []
        return replace(row, versus=found, notes=(*row.notes, *chance))

    return [versus(row) for row in rows]


def _without_rank(row: Row, *, reasons: Sequence[str]) -> Row:
    if not reasons:
        return row
    why = row.unranked or reasons[0]
    return replace(row, rank=None, unranked=why, notes=(*row.notes, *reasons))


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """Best score first, with ranks and fronts; those without a rank last."""
    by_score = sorted(rows, key=lambda row: (row.rank is None, -row.score.value, row.arm))
    points = {
        row.arm: (row.score.value, row.cost.rollout_tokens, row.cost.wall_s)
        for row in rows
        if row.rank is not None
    }
    fronts, off = pareto(points), Pareto(tokens=False, seconds=False)
    return [
        replace(
            row,
            rank=None if row.rank is None else place,
            pareto=fronts.get(row.arm, off),
        )
        for place, row in enumerate(by_score, start=1)
    ]


def _compared(runs: Sequence[RunRecord], *, baseline: Sequence[RunRecord]) -> Comparison | None:
    shared = sorted({run.seed for run in runs} & {run.seed for run in baseline})
    if not shared:
        return None
    ours = [run for run in runs if run.seed in shared]
    theirs = [run for run in baseline if run.seed in shared]
    prompts = shared_prompts([*ours, *theirs])
    arm_SP, baseline_SP = (table(scores_of(r, prompts=prompts)) for r in (ours, theirs))
    low, high = bounds_of(arm_SP, baseline_SP, declared=declared_bounds([*ours, *theirs]))
    return compare(arm_SP, baseline=baseline_SP, span=high - low)
