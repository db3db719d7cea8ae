"""From runs to rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from statistics import fmean

from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard.measure import (
    budget_notes,
    cost_of,
    heldout,
    mean_known,
    notes_of,
    provenance_of,
    result_of,
    scores_of,
    shared_prompts,
)
from gfcr.leaderboard.rows import Excluded, Leaderboard, Row, Versus
from gfcr.leaderboard.screen import matching, screen
from gfcr.statistics import (
    Comparison,
    Interval,
    bootstrap_interval,
    compare,
    holm,
    judge,
    mean_interval,
)
from gfcr.tracking.records import RunRecord

_BY_CHANCE = "the interval excludes 0, but among this many arms one does so by chance too often"
STAGES = ("generate", "filters", "controls", "replay")


def rank(
    records: Sequence[RunRecord],
    *,
    baseline: str | None = None,
    where: Mapping[str, str] | None = None,
    margin: float = 0.02,
) -> Leaderboard:
    """Ranks runs that have been read. Arguments and errors as `build`."""
    records = matching(records, where=where or {})
    studies = sorted({record.study for record in records})
    if len(studies) > 1:
        records = [replace(r, arm=f"{r.study}/{r.arm}") for r in records]
    arms, excluded = screen(records, baseline=baseline)
    if baseline is not None and baseline not in arms:
        raise _no_baseline(baseline, arms=arms, excluded=excluded)
    rows = [_row(arm, runs=runs) for arm, runs in arms.items()]
    if baseline is not None:
        rows = _judged(rows, arms=arms, baseline=baseline, margin=margin)
    return Leaderboard(
        study=", ".join(studies),
        baseline=baseline,
        margin=margin,
        rows=tuple(sorted(rows, key=lambda row: (-row.score.value, row.arm))),
        excluded=tuple(sorted(excluded, key=lambda e: (e.arm, e.seed, e.run_id))),
    )


def _no_baseline(
    baseline: str, *, arms: Iterable[str], excluded: Sequence[Excluded]
) -> ConfigError:
    reasons = sorted({run.reason for run in excluded if run.arm == baseline})
    if not reasons:
        return unknown_name(baseline, kind="baseline arm", allowed=arms)
    return ConfigError(
        f"baseline={baseline!r} has no usable run ({'; '.join(reasons)}). Run it again, or name "
        f"another: {', '.join(sorted(arms))}."
    )


def _row(arm: str, *, runs: Sequence[RunRecord]) -> Row:
    scores = scores_of(runs, prompts=shared_prompts(runs))
    mean = fmean(heldout(run)["accuracy"] for run in runs)
    around = mean_interval(scores)
    half = (around.high - around.low) / 2 if around else nan
    first = runs[0]
    return Row(
        arm=arm,
        strategy=result_of(first)["strategy"],
        stages={stage: first.tags.get(f"gfcr.{stage}", "") for stage in STAGES},
        seeds=tuple(run.seed for run in runs),
        before=mean_known(heldout(run, "before").get("accuracy") for run in runs),
        score=Interval(value=mean, low=mean - half, high=mean + half),
        iqm=bootstrap_interval(scores),
        versus=None,
        cost=cost_of(runs),
        provenance=provenance_of(runs),
        notes=tuple(notes_of(runs)),
        curves={run.seed: result_of(run).get("curve", []) for run in runs},
        series={
            name: {run.seed: run.series[name] for run in runs if name in run.series}
            for name in sorted({name for run in runs for name in run.series})
        },
    )


def _judged(
    rows: Sequence[Row],
    *,
    arms: Mapping[str, Sequence[RunRecord]],
    baseline: str,
    margin: float,
) -> list[Row]:
    """Adds the comparison with the baseline, p-values corrected for their number."""
    others = [row.arm for row in rows if row.arm != baseline]
    compared = {arm: _compared(arms[arm], baseline=arms[baseline]) for arm in others}
    told = {arm: c for arm, c in compared.items() if c is not None and c.pairs > 1}
    p_values = dict(zip(told, holm([c.p_value for c in told.values()]), strict=True))

    def versus(row: Row) -> Row:
        comparison = compared.get(row.arm)
        if comparison is None:
            missing = () if row.arm == baseline else (f"no seed in common with {baseline}",)
            return replace(row, notes=(*row.notes, *missing))
        p_value = p_values.get(row.arm, 1.0)
        unequal = budget_notes(arms[row.arm], baseline=arms[baseline])
        verdict = judge(comparison, p_value=p_value, margin=margin)
        told = Versus(
            comparison=comparison,
            p_adjusted=p_value,
            verdict="inconclusive" if unequal else verdict,
        )
        chance = [_BY_CHANCE] if comparison.p_value < 0.05 <= p_value else []
        return replace(row, versus=told, notes=(*row.notes, *unequal, *chance))

    return [versus(row) for row in rows]


def _compared(runs: Sequence[RunRecord], *, baseline: Sequence[RunRecord]) -> Comparison | None:
    shared = sorted({run.seed for run in runs} & {run.seed for run in baseline})
    if not shared:
        return None
    ours = [run for run in runs if run.seed in shared]
    theirs = [run for run in baseline if run.seed in shared]
    prompts = shared_prompts([*ours, *theirs])
    return compare(scores_of(ours, prompts=prompts), baseline=scores_of(theirs, prompts=prompts))
