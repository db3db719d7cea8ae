"""Running a trial on another machine that shares the study's folder."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfcr.launch.base import Job, Watch
from gfcr.launch.process import TrialProcess, writing

_POLL_S = 0.5


def run_trial(job: Job, *, cwd: Path, since: int) -> dict[str, Any]:
    """Runs the trial on a node, and ends it when the task is cancelled.

    If its `stamp` is not `since`, that of its submission, another node began it: it goes on.
    """
    needed = ((job.folder.parent, "give `folder`"), (cwd, "start the command in a folder"))
    for folder, remedy in needed:
        if not folder.is_dir():
            error = (
                f"{folder} is not on this node: {remedy} on a file system that the nodes of the "
                "cluster share."
            )
            return {"status": "failed", "error": error}
    fresh = job.fresh and stamp(job) == since
    process = TrialProcess(replace(job, fresh=fresh), cwd=cwd)
    try:
        while (result := process.wait(_POLL_S)) is None:
            pass
    # Ray cancels a task by KeyboardInterrupt, which is no Exception.
    except BaseException:
        process.stop()
        raise
    return result


def absolute(job: Job) -> Job:
    """Returns the job with absolute folders: nodes start in working folders of their own."""
    folder = job.folder.resolve()
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    config = {**job.config, "folder": str(Path(job.config["folder"]).resolve())}
    return replace(job, folder=folder, config=config)


def look_at(jobs: Iterable[Job], *, stamps: dict[str, int], begin: Watch, watch: Watch) -> None:
    """Tells of jobs that a node has begun, and watches those that were begun before.

    Args:
        jobs: jobs that were submitted and have not ended.
        stamps: the `stamp` of each job, by name, when it was submitted; that of one begun goes.
        begin: called once for each job that is begun.
        watch: called for each job that was begun.
    """
    for job in jobs:
        if job.name in stamps and stamp(job) != stamps[job.name]:
            del stamps[job.name]
            begin(job)
        if job.name not in stamps:
            watch(job)


def stamp(job: Job) -> int:
    """Returns a number that changes when a node starts the job, which writes its spec first."""
    file = job.folder.parent / f"{job.folder.name}.yaml"
    return file.stat().st_mtime_ns if file.exists() else 0
