"""Writes a study's report, to its folder and to its MLflow store."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from gfcr import sweep
from gfcr.commands.leaderboard import asked_by

if TYPE_CHECKING:
    from gfcr.leaderboard import Leaderboard

_REPORT: Final = "leaderboard.html"
_LOCAL: Final = "http://127.0.0.1:5000"
"""The address at which `mlflow ui` serves a store that has no server of its own."""


def report_study(study: sweep.Study) -> "tuple[Leaderboard, str]":
    """Ranks a study that is tracked in MLflow, and writes the report to its folder and its store.

    Returns:
        The leaderboard, and a markup text that says where the report and MLflow's page are.

    Raises:
        GfcrError: the store cannot be read or written to, or has nothing to rank.
    """
    from gfcr import leaderboard

    first = study.trials[0].config
    uri, asked = study.store, asked_by(study)
    board = leaderboard.build(uri, study=study.name, baseline=study.baseline, asked=asked)
    html = Path(first.folder) / study.name / "leaderboard.html"
    page = keep(board, uri=uri, experiment=first.tracking.get("experiment"), html=html)
    served = "" if uri.startswith("http") else f" (mlflow ui --backend-store-uri {uri})"
    return board, escape(f"HTML report: {html}\nMLflow: {page}{served}")


def keep(board: "Leaderboard", *, uri: str, html: Path, experiment: str | None = None) -> str:
    """Writes a study's report to a file, and to its store with its run, over an earlier one.

    Returns:
        The address of the study's runs in MLflow's pages: those of training runs, whatever the
        browser showed last (by itself MLflow opens on traces).

    Raises:
        StoreError: it cannot be reached.
    """
    from gfcr.commands import rendered
    from gfcr.leaderboard import report
    from gfcr.tracking.mlflow_client import open_client, telling
    from gfcr.tracking.mlflow_nested import find_experiment, find_run, store_lock

    rollouts = rendered.of_board(board, uri=uri)
    page = report.write(board, path=html, rollouts=rollouts).read_text("utf-8")
    with telling(f"tracking.uri={uri!r}"):
        with store_lock(uri):
            client = open_client(uri)
            where = find_experiment(client, name=experiment or board.study, uri=uri)
            run = find_run(client, where, kind="study", names=(board.study,))
        client.log_text(run.info.run_id, page, _REPORT)
    server = uri if uri.startswith("http") else _LOCAL
    return f"{server.rstrip('/')}/#/experiments/{where}/runs?workflowType=machine_learning"
