"""System metrics beside a run's own: MLflow's monitor, which samples them in a thread."""

from typing import TYPE_CHECKING

from gfcr.tracking.mlflow_client import full

if TYPE_CHECKING:
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor


def monitor(uri: str, *, run_id: str) -> "SystemMetricsMonitor | None":
    """Starts to sample processor, memory, disk, network and GPUs into a running run.

    MLflow decides how often (MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL, 10 s by default), and
    whether at all: None where MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false.
    """
    from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as ENABLED
    from mlflow.system_metrics import system_metrics_monitor

    if ENABLED.is_set() and not ENABLED.get():
        return None
    found = system_metrics_monitor.SystemMetricsMonitor(
        run_id, resume_logging=True, tracking_uri=full(uri)
    )
    found.start()
    return found
