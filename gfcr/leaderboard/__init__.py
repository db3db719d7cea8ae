"""Which combination of strategies buys the most, from tracked runs alone.

The same store gives the same leaderboard, byte for byte: everything is sorted, every draw seeded.
"""

from collections.abc import Collection, Sequence

from gfcr.config import HELDOUT
from gfcr.errors import unknown_name
from gfcr.leaderboard.json_rows import to_dict, to_json
from gfcr.leaderboard.ranking import rank
from gfcr.leaderboard.rows import (
    ArmCost,
    Excluded,
    Leaderboard,
    Row,
    Score,
    Shift,
    ToTarget,
    Versus,
)
from gfcr.leaderboard.tables import caption, remarks, to_csv, to_markdown, to_rich
from gfcr.tracking.mlflow_store import read_runs
from gfcr.tracking.records import RunRecord

__all__ = [
    "ArmCost",
    "Excluded",
    "Leaderboard",
    "Row",
    "Score",
    "Shift",
    "ToTarget",
    "Versus",
    "baseline_of",
    "build",
    "caption",
    "rank",
    "read",
    "remarks",
    "to_csv",
    "to_dict",
    "to_json",
    "to_markdown",
    "to_rich",
]

SERIES = (
    "engine/forward_passes",
    "group/dead_share",
    HELDOUT,
    "length/all/mean",
    "length/all/p50",
    "length/all/p90",
    "length/all/p99",
    "length/trained/mean",
    "reward/all",
    "reward/trained",
    "speculation/acceptance_length",
)
"""Metrics read: for plots, for sums (forward passes), and to check the results against."""


def build(
    uri: str,
    *,
    study: str | None = None,
    baseline: str | None = None,
    where: Sequence[str] = (),
    margin: float | None = None,
    target: float | None = None,
    runs: Collection[str] = (),
) -> Leaderboard:
    """Builds the leaderboard from an MLflow store.

    Args:
        uri: MLflow tracking URI.
        study: study to rank; None ranks all of them together.
        baseline: arm that the others are compared with; None takes the one the study names.
        where: filter expressions, see `leaderboard.where` and `leaderboard.selection`.
        margin: largest difference of the score that would not matter; None takes the study's
            minimum effect of interest, or 0.02.
        target: held-out score for time- and tokens-to-target; None takes the baseline's.
        runs: ids of the runs to rank; where the store holds none of them, all of the study's are.

    Raises:
        ConfigError: no such store, study, baseline or parameter.
    """
    records = read(uri, study=study, runs=runs)
    return rank(
        records,
        baseline=baseline_of(records) if baseline is None else baseline,
        where=where,
        margin=margin,
        target=target,
    )


def read(uri: str, *, study: str | None = None, runs: Collection[str] = ()) -> list[RunRecord]:
    """Reads the runs that a leaderboard is about. Arguments and errors as `build`."""
    chosen = read_runs(uri, study=study, series=SERIES)
    if study is not None and not chosen:
        names = {record.study for record in read_runs(uri)}
        raise unknown_name(study, kind="study", allowed=names, where=uri)
    return [record for record in chosen if record.run_id in runs] or chosen


def baseline_of(records: Sequence[RunRecord]) -> str | None:
    """Returns the baseline that the runs' study names; None when they name several or none."""
    named = {run.tags.get("gfcr.baseline", "") for run in records}
    return (named.pop() or None) if len(named) == 1 else None
