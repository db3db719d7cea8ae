"""Verdicts: compares every arm with the baseline, corrected for all arms of the study."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gfcr.leaderboard.measure import budget_of
from gfcr.leaderboard.readings import Compared, Limits, compared
from gfcr.leaderboard.rows import Row, Versus
from gfcr.leaderboard.screen import compares_of
from gfcr.stats import holm
from gfcr.tracking.records import RunRecord

_BY_CHANCE = "the interval excludes 0, but among so many arms one does so by chance too often"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms that all comparisons of a study share."""

    baseline: str
    margin: float
    limits: Limits
    comparisons: int
    """The number of comparisons, see `design.compared_with`."""


def judged(
    rows: Sequence[Row], *, arms: Mapping[str, Sequence[RunRecord]], study: Terms
) -> list[Row]:
    """Adds the comparison with the baseline; p-values are corrected for all arms of the study.

    Arms without a verdict (stopped, failed, filtered, unranked) count with p = 1, the largest there
    is, so that no arm gains by another's absence.
    """
    theirs = arms[study.baseline]
    same_start = "model" not in compares_of(theirs, baseline=study.baseline)
    found = comparisons_of(
        arms, baseline=study.baseline, limits=study.limits, same_start=same_start
    )

    def on_terms(row: Row) -> Row:
        if row.arm == study.baseline:
            return row
        start = _other_start(found[row.arm], study=study, same_start=same_start)
        budget = budget_of(arms[row.arm], baseline=theirs)
        row = without_rank(row, reasons=[*start, *budget.unequal])
        return replace(row, notes=(*row.notes, *budget.told))

    rows = [on_terms(row) for row in rows]
    ranked = {row.arm for row in rows if row.rank is not None}
    p_values = corrected(found, ranked=ranked, comparisons=study.comparisons)
    return [_versus(row, found=found, p_values=p_values, study=study) for row in rows]


def comparisons_of(
    arms: Mapping[str, Sequence[RunRecord]], *, baseline: str, limits: Limits, same_start: bool
) -> dict[str, Compared | None]:
    """Returns how each other arm compares with the baseline; None without a seed in common."""
    return {
        arm: compared(runs, baseline=arms[baseline], limits=limits, same_start=same_start)
        for arm, runs in arms.items()
        if arm != baseline
    }


def corrected(
    found: Mapping[str, Compared | None], *, ranked: Collection[str], comparisons: int
) -> dict[str, float]:
    """Returns Holm's p-values of the arms with a verdict, among `comparisons` comparisons."""
    told = {arm: c for arm, c in found.items() if c and c.shown.pairs > 1 and arm in ranked}
    # An arm without a verdict has the largest p-value there is, which helps no other arm.
    absent = [1.0] * (comparisons - len(told))
    among = holm([*(c.p_value for c in told.values()), *absent])
    return dict(zip(told, among, strict=False))


def versus_of(comparison: Compared, *, p_value: float | None, margin: float) -> Versus:
    """Returns the verdict; inconclusive for an arm without a corrected p-value."""
    verdict = (
        "inconclusive" if p_value is None else comparison.verdict(p_value=p_value, margin=margin)
    )
    shown = 1.0 if p_value is None else p_value
    return Versus(comparison=comparison.shown, p_adjusted=shown, verdict=verdict)


def without_rank(row: Row, *, reasons: Sequence[str]) -> Row:
    """Returns the row without a rank for the first of the reasons; its notes have all of them."""
    if not reasons:
        return row
    why = row.unranked or reasons[0]
    return replace(row, rank=None, unranked=why, notes=(*row.notes, *reasons))


def _other_start(found: Compared | None, *, study: Terms, same_start: bool) -> list[str]:
    """Returns why an arm that began with another policy than the baseline has no rank."""
    start = found and found.start
    if start is None or not same_start or not start.elsewhere:
        return []
    return [f"it did not begin with the baseline's policy: {start.note(study.baseline)}"]


def _versus(
    row: Row,
    *,
    found: Mapping[str, Compared | None],
    p_values: Mapping[str, float],
    study: Terms,
) -> Row:
    comparison = found.get(row.arm)
    if comparison is None:
        missing = () if row.arm == study.baseline else (f"no seed in common with {study.baseline}",)
        return replace(row, notes=(*row.notes, *missing))
    p_value = p_values.get(row.arm)
    versus = versus_of(comparison, p_value=p_value, margin=study.margin)
    by_chance = p_value is not None and comparison.p_value < 0.05 <= p_value
    notes = [_BY_CHANCE] if by_chance else []
    start = comparison.start
    if start is not None and not any(start.note(study.baseline) in note for note in row.notes):
        notes.append(start.note(study.baseline))
    return replace(row, versus=versus, notes=(*row.notes, *notes))
