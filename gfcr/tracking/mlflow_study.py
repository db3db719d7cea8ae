"""The run of a study in MLflow, with the report that is kept there."""

from typing import Final

from gfcr.tracking.mlflow_client import find_experiment, find_run, full, open_client, store_lock
from gfcr.tracking.mlflow_store import telling

REPORT: Final = "leaderboard.html"
_LOCAL: Final = "http://127.0.0.1:5000"
"""The address at which `mlflow ui` serves a store that has no server of its own."""


def keep_report(uri: str, *, study: str, experiment: str | None, page: str) -> str:
    """Stores a study's report with its run, and replaces an earlier one.

    Args:
        uri: MLflow tracking URI.
        study: the study's name.
        experiment: the MLflow experiment; None takes the study's name.
        page: the report, as HTML.

    Returns:
        The address of the study's runs in MLflow's pages: those of training runs, whatever the
        browser showed last (by itself MLflow opens on traces).

    Raises:
        StoreError: it cannot be reached.
    """
    with telling(uri):
        with store_lock(uri):
            client = open_client(uri)
            where = find_experiment(client, name=experiment or study, uri=uri)
            run = find_run(client, where, kind="study", names=(study,))
        client.log_text(run.info.run_id, page, REPORT)
    server = full(uri) if uri.startswith("http") else _LOCAL
    return f"{server.rstrip('/')}/#/experiments/{where}/runs?workflowType=machine_learning"
