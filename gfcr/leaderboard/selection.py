"""Which runs and rows a table is about, by filter expressions.

An expression on what runs are (parameters, tags, arm, seed) chooses runs before anything is
computed. One on results chooses rows of the finished table: verdicts stay those of all the arms
that were compared, and no seed is chosen by its score. The baseline always stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gfcr.errors import ConfigError
from gfcr.leaderboard.rows import Row
from gfcr.leaderboard.where import Where, check_known, facts_of
from gfcr.tracking.records import RunRecord

RESULTS: Mapping[str, Callable[[Row], object]] = {
    "score": lambda row: row.score.value,
    "iqm": lambda row: row.score.iqm,
    "before": lambda row: row.before,
    "delta": lambda row: row.versus and row.versus.comparison.difference.value,
    "verdict": lambda row: row.versus and row.versus.verdict,
    "rank": lambda row: row.rank,
    "certificate": lambda row: row.certificate,
    "seeds": lambda row: len(row.seeds),
    "tokens": lambda row: row.cost.rollout_tokens,
    "generated_tokens": lambda row: row.cost.generated_tokens,
    "trained_tokens": lambda row: row.cost.trained_tokens,
    "wasted_share": lambda row: row.cost.wasted_share,
    "wall_s": lambda row: row.cost.wall_s,
    "forward_passes": lambda row: row.cost.forward_passes,
    "verifier_calls": lambda row: row.cost.verifier_calls,
    "r_gen": lambda row: row.cost.r_gen,
    "tokens_to_target": lambda row: row.to_target and row.to_target.tokens,
    "seconds_to_target": lambda row: row.to_target and row.to_target.seconds,
    "selection_bias": lambda row: any(shift.significant for shift in row.bias.values()),
}
"""Names of results in expressions."""


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """Filter expressions by what they choose."""

    of_runs: Sequence[Where]
    of_rows: Sequence[Where]


def sort_out(given: Sequence[Where], *, runs: Sequence[RunRecord]) -> Expressions:
    """Splits expressions; those that mention a result are of rows.

    Raises:
        ConfigError: a name is unknown, or results are mixed with `seed`, which rows have not.
    """
    for where in given:
        if runs:
            check_known(where, known=RESULTS, runs=runs)
        if "seed" in where.names and where.names & RESULTS.keys():
            raise ConfigError(
                f"where '{where.text}': seeds cannot be chosen by results, which are the arm's. "
                "Give two expressions, each with its own --where."
            )
    of_rows = [where for where in given if where.names & RESULTS.keys()]
    return Expressions(of_runs=[w for w in given if w not in of_rows], of_rows=of_rows)


def keep_runs(
    runs: Sequence[RunRecord], *, where: Sequence[Where], baseline: str | None
) -> list[RunRecord]:
    """Returns the runs for which all the expressions hold; the baseline's seeds are chosen too."""

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
    """Returns the rows for which all the expressions hold, and the baseline's."""

    def holds(row: Row, expression: Where) -> bool:
        results = {n: RESULTS[n](row) for n in expression.names & RESULTS.keys()}
        others = facts_of(arms[row.arm][0], expression.names - RESULTS.keys())
        return expression.holds({**others, **results})

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
