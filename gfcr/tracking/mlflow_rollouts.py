"""Reads rollouts of runs back from an MLflow store."""

import tempfile
from pathlib import Path
from typing import Final

from gfcr.errors import StoreError
from gfcr.tracking.looked_at import LookedAt, look_at
from gfcr.tracking.mlflow_client import list_files, open_client, search, short

MOST_BYTES: Final = 16 << 20
"""The largest rollout file that is downloaded to show it, in bytes."""


def newest_rollouts(uri: str, *, run_id: str) -> list[LookedAt]:
    """Returns the rollouts of a run's newest update whose file has at most `MOST_BYTES`.

    There are none where the store holds no rollout files (`tracking.artifacts: results`).

    Raises:
        StoreError: the store cannot be read.
    """
    from mlflow.exceptions import MlflowException

    client = open_client(uri, reading=True)
    try:
        for run in search(client, f"tags.`gfcr.run_id` = '{run_id}'"):
            held = list_files(client, run_id=run.info.run_id, folder="rollouts")
            fitting = [name for name, size in held.items() if (size or 0) <= MOST_BYTES]
            if not fitting:
                continue
            with tempfile.TemporaryDirectory() as folder:
                file = client.download_artifacts(run.info.run_id, max(fitting), folder)
                return look_at(Path(file))
    except (MlflowException, OSError) as error:
        raise StoreError(
            f"rollouts of run {run_id} in tracking.uri={uri!r} cannot be read ({short(error)})."
        ) from error
    return []
