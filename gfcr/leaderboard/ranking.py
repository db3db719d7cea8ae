"""Ranks the arms of a study from its runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard.arms import row_of
from gfcr.leaderboard.board import Leaderboard
from gfcr.leaderboard.certificates import NOTES
from gfcr.leaderboard.design import added_seeds, compared_with, differences, settings_of
from gfcr.leaderboard.expected import expected_of, lack, missing_of
from gfcr.leaderboard.judging import Terms, judged, without_rank
from gfcr.leaderboard.measure import declared_bounds, scores_of, shared_prompts
from gfcr.leaderboard.readings import limits_of
from gfcr.leaderboard.rows import ArmSeed, Excluded, Pareto, Row
from gfcr.leaderboard.screen import compares_of, screen
from gfcr.leaderboard.selection import keep_rows, keep_runs, sort_out
from gfcr.leaderboard.targets import end_of, pareto, to_target
from gfcr.leaderboard.where import Where
from gfcr.stats import noise_floor
from gfcr.tracking.names import HELDOUT, MARGIN
from gfcr.tracking.records import RunRecord


def rank(
    records: Sequence[RunRecord],
    *,
    baseline: str | None = None,
    where: Sequence[str] = (),
    margin: float | None = None,
    target: float | None = None,
    asked: Collection[ArmSeed] = (),
    others: Sequence[RunRecord] = (),
) -> Leaderboard:
    """Ranks runs that have been read already.

    Args and errors as `build`, and `others`: the study's runs that the table is not about, of specs
    that its file no longer names. They count among the comparisons, as they may have been seen.
    """
    of_runs, of_rows = sort_out([Where(text) for text in where], runs=records)
    # What a damaged record says of its study is left out with it.
    studies = sorted({r.study for r in records if not r.damage} or {r.study for r in records})
    if len(studies) > 1:
        records = [replace(r, arm=f"{r.study}/{r.arm}") for r in records]
    kept = keep_runs(records, where=of_runs, baseline=baseline)
    arms, excluded = screen(kept, baseline=baseline)
    _check_baseline(baseline, arms=arms, excluded=excluded)
    usable = [run for runs in arms.values() for run in runs]
    metric, own, notes = _metric_and_margin(usable, margin=margin)
    margin = own if margin is None else margin
    limits, expected = limits_of(usable), expected_of(records, asked=asked)
    rows = [row_of(arm, runs=runs, limits=limits) for arm, runs in arms.items()]
    _check_certified(baseline, rows=rows)
    base = [] if baseline is None else arms[baseline]
    rows = _unrank_incomplete(rows, expected=expected, baseline=baseline)
    biased = {row.arm for row in rows if row.certificate == "biased"}
    scored = [r for r in (*records, *others) if r.status == "finished" and r.arm not in biased]
    comparisons = 0
    if baseline is not None:
        beside = {r.arm for r in scored} - {r.arm for r in records}
        comparisons, told = compared_with(
            usable, baseline=baseline, arms={*expected} - biased - beside, scored=scored
        )
        notes += [*told, *added_seeds(usable), *differences(arms, baseline=baseline)]
        study = Terms(baseline=baseline, margin=margin, limits=limits, comparisons=comparisons)
        rows = judged(rows, arms=arms, study=study)
    if target is None and baseline is not None:
        target = end_of(base, least=limits[0])
    if target is not None:
        took = {arm: to_target(r, target=target, least=limits[0]) for arm, r in arms.items()}
        rows = [replace(row, to_target=took[row.arm]) for row in rows]
    rows = keep_rows(_ordered(rows), where=of_rows, arms=arms, baseline=baseline)
    settings = settings_of(arms)
    return Leaderboard(
        study=", ".join(studies),
        metric=metric,
        baseline=baseline,
        margin=margin,
        own_margin=own,
        target=target,
        noise_floor=noise_floor(scores_of(base, prompts=shared_prompts(base), unscored=limits[0])),
        rows=tuple(replace(row, settings=settings[row.arm]) for row in rows),
        excluded=tuple(sorted(excluded, key=lambda e: (e.arm, e.seed, e.run_id))),
        comparisons=comparisons,
        bounds=declared_bounds(usable) if usable else None,
        missing=missing_of(expected, records=[*records, *scored], by_file=bool(asked)),
        notes=(*notes, *_filter_notes(records, kept=kept), *_compares(usable, baseline=baseline)),
    )


def _metric_and_margin(
    runs: Sequence[RunRecord], *, margin: float | None
) -> tuple[str, float, list[str]]:
    """Returns the study's metric and margin from the runs in the table, and notes on conflicts.

    Runs that are left out are not asked: a failed one of an earlier file must not change them.
    """
    metrics, effects = (
        sorted({run.tags.get(f"gfcr.{name}", "") for run in runs})
        for name in ("metric", "minimum_effect")
    )
    metric = (metrics[0] if len(metrics) == 1 else "") or HELDOUT
    said = sorted(float(effect or MARGIN) for effect in effects if metric == HELDOUT) or [MARGIN]
    notes: list[str] = []
    if len(said) > 1:
        shown = ", ".join(f"{effect:g}" for effect in said)
        notes.append(f"The runs name several minimum effects ({shown}): the smallest counts.")
    if margin is not None and margin != said[0]:
        when = " was chosen after the runs" if margin > said[0] else " is given"
        notes.append(f"Margin {margin:g}{when}: the study's own is {said[0]:g}.")
    return metric, said[0], notes


def _unrank_incomplete(
    rows: Sequence[Row],
    *,
    expected: Mapping[str, Collection[int]],
    baseline: str | None,
) -> list[Row]:
    """Returns the rows, without a rank where an arm or the baseline lacks seeds."""
    theirs = [row for row in rows if row.arm == baseline]

    def whole(row: Row) -> Row:
        both = [row, *(other for other in theirs if other.arm != row.arm)]
        wanted = {seed for other in both for seed in expected[other.arm]}
        lacking = (lack(other.arm, wanted=wanted, seeds=other.seeds) for other in both)
        return without_rank(row, reasons=[why for reasons in lacking for why in reasons])

    return [whole(row) for row in rows]


def _filter_notes(records: Sequence[RunRecord], *, kept: Sequence[RunRecord]) -> list[str]:
    """Returns a note on the arms and seeds that filter expressions took out beforehand."""
    arms = sorted({run.arm for run in records} - {run.arm for run in kept})
    seeds = sorted({run.seed for run in records} - {run.seed for run in kept})
    told = [
        f"{kind} {', '.join(map(str, names))}"
        for kind, names in (("arms", arms), ("seeds", seeds))
        if names
    ]
    if not told:
        return []
    return [
        f"Taken out by --where: {'; '.join(told)}. p-values are corrected for all of the study's "
        "arms, and there is no verdict over chosen seeds."
    ]


def _compares(runs: Sequence[RunRecord], *, baseline: str | None) -> list[str]:
    keys = compares_of(runs, baseline=baseline)
    return [f"By the study's design its arms may differ in {', '.join(keys)}."] if keys else []


def _check_baseline(
    baseline: str | None, *, arms: Collection[str], excluded: Sequence[Excluded]
) -> None:
    if baseline is None or baseline in arms:
        return
    reasons = sorted({run.reason for run in excluded if run.arm == baseline})
    if not reasons:
        raise unknown_name(baseline, kind="baseline arm", allowed=arms)
    others = f", or name another: {', '.join(sorted(arms))}" if arms else ""
    raise ConfigError(
        f"baseline={baseline!r} has no usable run ({'; '.join(reasons)}). Run it again{others}."
    )


def _check_certified(baseline: str | None, *, rows: Sequence[Row]) -> None:
    if any(row.arm == baseline and row.certificate == "biased" for row in rows):
        raise ConfigError(
            f"baseline={baseline!r} cannot be compared with: {NOTES['biased']}. Name another arm."
        )


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """Returns rows with ranks and fronts, the best score first; those without a rank last.

    Arms of equal score have the same rank.
    """
    floors = {row.arm: round(row.score.floor, 12) for row in rows}  # sums differ by rounding
    by_score = sorted(rows, key=lambda row: (row.rank is None, -floors[row.arm], row.arm))
    points = {
        row.arm: (floors[row.arm], row.cost.rollout_tokens, row.cost.wall_s)
        for row in rows
        if row.rank is not None and not (row.versus and row.versus.verdict == "worse")
    }
    fronts, off = pareto(points), Pareto(tokens=False, seconds=False)
    scores = [floors[row.arm] for row in by_score]
    ranks = [None if r.rank is None else scores.index(floors[r.arm]) + 1 for r in by_score]
    return [
        replace(row, rank=rank, pareto=fronts.get(row.arm, off))
        for row, rank in zip(by_score, ranks, strict=True)
    ]
