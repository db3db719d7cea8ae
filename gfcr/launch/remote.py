"""A trial on another machine, which shares the study's folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gfcr.launch.base import Job
from gfcr.launch.process import TrialProcess

_POLL_S = 0.5


def run_trial(job: Job, *, cwd: Path) -> dict[str, Any]:
    """On a node: runs the trial, and ends it when the caller is told to end."""
    if not job.folder.parent.is_dir():
        error = (
            f"{job.folder.parent} is not on this node: give `folder` on a file system that the "
            "nodes of the cluster share."
        )
        return {"status": "failed", "error": error}
    process = TrialProcess(job, cwd=cwd)
    try:
        while (result := process.wait(_POLL_S)) is None:
            pass
    except BaseException:
        process.stop()
        raise
    return result


def absolute(job: Job) -> Job:
    """The job with its folder in full, made: nodes start in folders of their own."""
    folder = job.folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = {**job.config, "folder": str(Path(job.config["folder"]).resolve())}
    return replace(job, folder=folder, config=config)


def stamp(job: Job) -> int:
    """Changes when a node takes the job up, which writes its spec first."""
    file = job.folder.parent / f"{job.folder.name}.yaml"
    return file.stat().st_mtime_ns if file.exists() else 0
