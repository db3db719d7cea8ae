"""The leaderboard: which combination of strategies is best, from tracked runs alone.

The same store gives the same leaderboard, byte for byte: all is sorted, all draws are seeded.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard.board import Leaderboard
from gfcr.leaderboard.figures import to_dict
from gfcr.leaderboard.ranking import rank
from gfcr.leaderboard.rows import ArmSeed
from gfcr.leaderboard.tables import caption, remarks, to_csv, to_markdown, to_rich
from gfcr.tracking.mlflow_store import read_runs
from gfcr.tracking.records import RunRecord

__all__ = [
    "ArmSeed",
    "Leaderboard",
    "baseline_of",
    "build",
    "caption",
    "of_file",
    "rank",
    "read",
    "remarks",
    "to_csv",
    "to_dict",
    "to_markdown",
    "to_rich",
]

_OTHERS = "The store has none of the runs that the study's file asks for: these are others of it."
SERIES = (
    "engine/forward_passes",
    "group/dead_share",
    "length/all/mean",
    "length/all/p50",
    "length/all/p90",
    "length/all/p99",
    "length/trained/mean",
    "reward/all",
    "reward/trained",
    "speculation/acceptance_length",
)
"""Metrics that are read, for plots."""


def build(
    uri: str,
    *,
    study: str | None = None,
    baseline: str | None = None,
    where: Sequence[str] = (),
    margin: float | None = None,
    target: float | None = None,
    asked: Mapping[str, ArmSeed] | None = None,
    planned: str | None = None,
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
        asked: what the study's file asks for, by run id; where the store holds none of these runs,
            all of the study's are ranked.
        planned: the baseline of the study's file; see `baseline_of`.

    Raises:
        ConfigError: no such store, study, baseline or parameter.
    """
    runs_asked = asked or {}
    records, others = of_file(read(uri, study=study), runs=runs_asked)
    board = rank(
        records,
        others=others,
        baseline=baseline_of(records, planned=planned) if baseline is None else baseline,
        where=where,
        margin=margin,
        target=target,
        asked=runs_asked.values(),
    )
    unasked = bool(runs_asked) and not any(run.run_id in runs_asked for run in records)
    return replace(board, notes=(*board.notes, *([_OTHERS] if unasked else [])))


def read(uri: str, *, study: str | None = None) -> list[RunRecord]:
    """Reads the runs of a study, or of all. Arguments and errors as `build`."""
    found = read_runs(uri, study=study, series=SERIES)
    if study is not None and not found:
        held = {r.study for r in read_runs(uri)}
        if not held:
            raise ConfigError(
                f"{uri} holds no runs: run the study, give the --uri that it was tracked with, or "
                f"bring its run folders there: `gfcr upload --uri {uri} runs/`."
            )
        raise unknown_name(study, kind="study", allowed=held, where=uri)
    return found


def of_file(
    records: Sequence[RunRecord], *, runs: Collection[str]
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Splits a study's runs into those that its file is about and the others.

    Every seed of an arm that the file asks for belongs to it, also one that was taken off the file
    after it was run, because a verdict is over all seeds. The others are of specs that the file no
    longer names. Where the file asks for none of the runs, all of them are its.

    Args:
        records: all runs of the study.
        runs: ids of the runs that the file asks for.
    """
    specs = {_specified(r) for r in records if r.run_id in runs}
    own = [r for r in records if r.run_id in runs or _specified(r) in specs]
    return (own, [r for r in records if r not in own]) if own else ([*records], [])


def _specified(run: RunRecord) -> tuple[str, str]:
    return run.arm, run.tags.get("gfcr.spec_hash", "?")


def baseline_of(records: Sequence[RunRecord], *, planned: str | None = None) -> str | None:
    """Returns the baseline of the runs' study; None where they name several, or are of several.

    That of the study's file counts, where it has runs: it may have been edited since they began.
    Runs that did not finish, or whose records are damaged, do not count unless all runs are such.
    """
    if any(run.arm == planned for run in records):
        return planned
    ended = [r for r in records if r.status == "finished" and not r.damage] or records
    named = {run.tags.get("gfcr.baseline") for run in ended}
    studies = {run.study for run in records if not run.damage}
    return (named.pop() or None) if len(named) == 1 and len(studies) < 2 else None
