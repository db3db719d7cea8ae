"""Which combination of strategies buys the most, from tracked runs alone.

The same store gives the same leaderboard, byte for byte: everything is sorted, every draw seeded.
"""

from collections.abc import Collection, Sequence

from gfcr.errors import unknown_name
from gfcr.leaderboard.integrity import HELDOUT
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
from gfcr.leaderboard.tables import caption, to_csv, to_markdown, to_rich
from gfcr.tracking.mlflow_store import read_runs

__all__ = [
    "ArmCost",
    "Excluded",
    "Leaderboard",
    "Row",
    "Score",
    "Shift",
    "ToTarget",
    "Versus",
    "build",
    "caption",
    "rank",
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
    records = read_runs(uri, series=SERIES)
    names = sorted({record.study for record in records})
    if study is not None and study not in names:
        raise unknown_name(study, kind="study", allowed=names, where=uri)
    chosen = [record for record in records if study in (None, record.study)]
    chosen = [record for record in chosen if record.run_id in runs] or chosen
    named = {run.tags.get("gfcr.baseline", "") for run in chosen}
    if baseline is None and len(named) == 1:
        baseline = named.pop() or None
    return rank(chosen, baseline=baseline, where=where, margin=margin, target=target)
