"""Writes a study's report, to its folder and to its MLflow store."""

from pathlib import Path
from typing import TYPE_CHECKING

from gfcr import sweep
from gfcr.commands.leaderboard import asked_by

if TYPE_CHECKING:
    from gfcr.leaderboard import Leaderboard


def report_study(study: sweep.Study) -> "tuple[Leaderboard, str]":
    """Ranks a study that is tracked in MLflow, and writes the report to its folder and its store.

    Returns:
        The leaderboard, and a text that says where the report and MLflow's page are.

    Raises:
        GfcrError: the store cannot be read or written to, or has nothing to rank.
    """
    from gfcr import leaderboard

    first = study.trials[0].config
    uri = str(first.tracking.get("uri", "sqlite:///mlflow.db"))
    asked = asked_by(study)
    board = leaderboard.build(uri, study=study.name, baseline=study.baseline, asked=asked)
    html = Path(first.folder) / study.name / "leaderboard.html"
    page = keep(board, uri=uri, experiment=first.tracking.get("experiment"), html=html)
    served = "" if uri.startswith("http") else f" (mlflow ui --backend-store-uri {uri})"
    return board, f"HTML report: {html}\nMLflow: {page}{served}"


def keep(board: "Leaderboard", *, uri: str, html: Path, experiment: str | None = None) -> str:
    """Writes a study's report to a file and its store; returns the address of MLflow's page."""
    from gfcr.commands import rendered
    from gfcr.leaderboard import report
    from gfcr.tracking.mlflow_shown import keep_report

    rollouts = rendered.of_board(board, uri=uri)
    page = report.write(board, path=html, rollouts=rollouts).read_text("utf-8")
    return keep_report(uri, study=board.study or "", experiment=experiment, page=page)
