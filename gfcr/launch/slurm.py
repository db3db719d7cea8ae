"""Launcher of trials as jobs of a Slurm cluster, by submitit."""

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, final

from annotated_types import Interval

from gfcr.code import optional
from gfcr.errors import ConfigError, GfcrError
from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.launch.process import ended
from gfcr.launch.remote import absolute, look_at, run_trial, stamp
from gfcr.tracking.lock import is_locked
from gfcr.values.ranges import Natural, Options, Word

_POLL_S = 0.5
_GRACE_S = 25.0
"""Seconds in which cancelled trials record that they are paused."""


@final
@dataclass(kw_only=True)
class Slurm(Launcher):
    """Runs trials as Slurm jobs, which wait in the cluster's queue like any others.

    The nodes share the folder of the study (a network file system) and have gfcr installed alike. A
    job that is pre-empted or meets its time limit is queued again, where its trial resumes from its
    run folder. Job scripts and logs lie in `<run folder>.slurm`.
    """

    cluster: Literal["slurm", "local"] = "slurm"
    """Where jobs run: `slurm`, or `local` as processes of this machine, to try a study out."""
    parallel: Annotated[int, Interval(ge=1, le=10000)] = 100
    """Most jobs that are queued or running at a time."""
    minutes: Annotated[int, Interval(ge=1, le=10**6)] = 240
    """Time limit of a job in minutes."""
    timeouts: Natural = 20
    """How often a job that meets its time limit is queued again; preemptions are not counted."""
    cpus: Annotated[int, Interval(ge=1, le=10000)] = 1
    """Cores given to each trial."""
    gpus: Natural = 0
    """Devices given to each trial."""
    partition: Word | None = None
    """Slurm partition; None takes the cluster's default."""
    options: Options = field(default_factory=dict[str, Any])
    """Further sbatch options, by submitit's names: `{account: lab, qos: high, mem_gb: 64}`."""

    def __post_init__(self) -> None:
        if self.cluster == "local" and (self.partition or self.options):
            raise ConfigError(
                "launcher.cluster=local has neither partition nor options: leave them out, or give "
                "cluster=slurm."
            )

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`.

        Raises:
            GfcrError: there is no Slurm here, or it refuses a job.
        """
        waiting, queued, stamps = list(jobs), dict[str, tuple[Job, Any]](), dict[str, int]()
        try:
            while waiting or queued:
                for job in [job for job in waiting if not is_locked(job.folder)]:
                    if len(queued) < self.parallel:
                        waiting.remove(job)
                        stamps[job.name] = stamp(job)
                        queued[job.name] = job, self._submit(job)
                time.sleep(_POLL_S)
                held = list(queued.values())
                look_at([job for job, _ in held], stamps=stamps, begin=begin, watch=watch)
                for job, submitted in held:
                    if submitted.done():
                        del queued[job.name]
                        yield from ended(job, _result(submitted), waiting=waiting)
        finally:
            _cancel(list(queued.values()))

    def _submit(self, job: Job) -> Any:
        """Submits a job, and returns it as submitit knows it."""
        submitit = optional.load("submitit")
        found, before = absolute(job), stamp(job)
        try:
            executor = submitit.AutoExecutor(
                folder=f"{found.folder}.slurm/%j",
                cluster=self.cluster,
                slurm_max_num_timeout=self.timeouts,
            )
            executor.update_parameters(**self._parameters(job))
            return executor.submit(_Trial(job=found, cwd=Path.cwd(), since=before))
        except Exception as error:
            raise GfcrError(
                f"launcher: {job.name} was not taken by cluster={self.cluster} "
                f"({type(error).__name__}: {error}). Correct launcher.options (see `sbatch --help`)"
                ", or sweep where sbatch is."
            ) from error

    def _parameters(self, job: Job) -> Mapping[str, Any]:
        shared = {"timeout_min": self.minutes, "cpus_per_task": self.cpus, "name": job.name}
        more = {"partition": self.partition, **self.options} if self.partition else self.options
        of_slurm = {f"slurm_{name.removeprefix('slurm_')}": value for name, value in more.items()}
        # Asked for none, a cluster without devices refuses, and `gres` among the options clashes.
        return {**shared, **({"gpus_per_node": self.gpus} if self.gpus else {}), **of_slurm}


@final
@dataclass(frozen=True, kw_only=True)
class _Trial:
    """The function of a job, which continues the trial when the job is queued again."""

    job: Job
    cwd: Path
    since: int

    def __call__(self) -> dict[str, Any]:
        return run_trial(self.job, cwd=self.cwd, since=self.since)

    def checkpoint(self) -> Any:
        """Called by submitit when the job is preempted or meets its time limit."""
        return optional.load("submitit.helpers").DelayedSubmission(self)


def _result(submitted: Any) -> dict[str, Any]:
    error = submitted.exception()
    if error is None:
        return submitted.result()
    words = str(error).strip().splitlines()
    why = f"its job {submitted.job_id} ended without an answer ({words[0] if words else error!r})"
    return {"status": "failed", "error": f"{why}. The same command runs it on."}


def _cancel(queued: Sequence[tuple[Job, Any]]) -> None:
    """Cancels jobs and waits for those that ran, so that none outlives the sweep."""
    for _, submitted in queued:
        submitted.cancel()
    # A cancelled trial holds its lock until it has recorded that it is paused.
    deadline = time.monotonic() + _GRACE_S
    while any(is_locked(job.folder) for job, _ in queued) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
