"""Chooses the runs and rows of a table by filter expressions.

An expression on properties of runs (parameters, tags, arm, seed) chooses runs before anything is
computed. One on results chooses rows of the finished table: verdicts stay those of all the arms
that were compared, and no seed is chosen by its score. The baseline always stays.
"""

from collections.abc import Mapping, Sequence

from gfcr.errors import ConfigError
from gfcr.leaderboard.figures import RESULTS, figures_of
from gfcr.leaderboard.rows import Row
from gfcr.leaderboard.where import Where, check_known, facts_of
from gfcr.tracking.records import RunRecord


def sort_out(
    given: Sequence[Where], *, runs: Sequence[RunRecord]
) -> tuple[list[Where], list[Where]]:
    """Splits expressions into those that choose runs and those on results, which choose rows.

    Raises:
        ConfigError: a name is unknown, or results are mixed with `seed`, which rows do not have.
    """
    for where in given:
        if runs:
            check_known(where, known=RESULTS, runs=runs)
        if "seed" in where.names and where.names & RESULTS:
            raise ConfigError(
                f"where '{where.text}': seeds cannot be chosen by results, which are the arm's. "
                "Give two expressions, each with its own --where."
            )
    of_rows = [where for where in given if where.names & RESULTS]
    return [where for where in given if where not in of_rows], of_rows


def keep_runs(
    runs: Sequence[RunRecord], *, where: Sequence[Where], baseline: str | None
) -> list[RunRecord]:
    """Returns the runs for which all expressions hold; the baseline is filtered by seed only."""

    def holds(run: RunRecord) -> bool:
        asked = [w for w in where if run.arm != baseline or w.names == {"seed"}]
        return all(w.holds(facts_of(run, w.names)) for w in asked)

    kept = [run for run in runs if holds(run)]
    if runs and not [run for run in kept if run.arm != baseline or not where]:
        _none_left(where, of="run")
    return kept


def keep_rows(
    rows: Sequence[Row],
    *,
    where: Sequence[Where],
    arms: Mapping[str, Sequence[RunRecord]],
    baseline: str | None,
) -> list[Row]:
    """Returns the rows for which all expressions hold, and the baseline's."""

    def holds(row: Row, expression: Where) -> bool:
        others = facts_of(arms[row.arm][0], expression.names - RESULTS)
        return expression.holds({**others, **figures_of(row)})

    kept = [r for r in rows if r.arm == baseline or all(holds(r, w) for w in where)]
    if where and not [row for row in kept if row.arm != baseline]:
        _none_left(where, of="arm")
    return kept


def _none_left(where: Sequence[Where], *, of: str) -> None:
    given = " ".join(f"--where {w.text!r}" for w in where)
    raise ConfigError(
        f"{given} leaves no {of} beside the baseline. `gfcr leaderboard --json` shows what they "
        "have."
    )
