"""Launcher of trials that share cores sub-stage by sub-stage."""

import os
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, final

from annotated_types import Interval

from gfcr import registry
from gfcr.cluster.jigsaw.schedulers import Greedy, LookAhead, Scheduler, Serial, Unmanaged
from gfcr.errors import ConfigError
from gfcr.launch import slowdowns
from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.launch.lending import Lender, Lent, even
from gfcr.launch.process import Forks, TrialProcess, ended, first_free, libraries_of
from gfcr.process.cores import accelerated
from gfcr.process.lease import Lease, rows
from gfcr.values.ranges import Count, File

Name: TypeAlias = Literal["look_ahead", "greedy", "serial", "unmanaged"]
_POLL_S: Final = 0.004
_WATCH_S: Final = 0.5


@final
@dataclass(kw_only=True)
class Jigsaw(Launcher):
    """Lends the cores of this machine to what trials do now (JigsawRL, 2604.23838).

    Two trials evaluate, decode, finish tails or train side by side if, by measured slowdowns, that
    is sooner done than one after the other. As trials then slow each other, the leaderboard leaves
    their seconds out.
    """

    parallel: Annotated[int, Interval(ge=1, le=63)] = 2
    """Trials at a time, of which two compute; those that wait slow them (docs/scale-out.md)."""
    scheduler: Name = "unmanaged"
    """Which scheduler decides what runs together. `unmanaged` lends all cores to both and needs no
    table; `greedy` with a measured one was a little sooner done of four (docs/scale-out.md)."""
    depth: Count = 2
    """Number of decisions that `look_ahead` tries in advance."""
    table: File = ""
    """File of slowdowns that `gfcr bench jigsaw --table FILE` measured; without one, each of two
    takes 1.8 times as long, as measured for the demo model."""

    def __post_init__(self) -> None:
        known: dict[Name, Scheduler] = {
            "look_ahead": LookAhead(depth=self.depth),
            "greedy": Greedy(),
            "serial": Serial(),
            "unmanaged": Unmanaged(),
        }
        self.decides = known[self.scheduler]
        self.lent: list[Lent] = []
        """Sub-stages that were lent cores in the last run."""

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`.

        Raises:
            ConfigError: the table cannot be read, or cores cannot be lent to a trial.
        """
        _check(jobs)
        lender = Lender(
            scheduler=self.decides,
            slowdown=slowdowns.read(Path(self.table)) if self.table else even(),
            cores=sorted(os.sched_getaffinity(0)),
        )
        self.lent = lender.lent
        waiting, running = list(jobs), dict[str, tuple[Job, TrialProcess]]()
        looked_s, most = 0.0, 1 if self.scheduler == "serial" else self.parallel
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gfcr-jigsaw-"))
            file = rows(Path(folder) / "leases", num=len(jobs))
            forks = stack.enter_context(closing(Forks(libraries_of(jobs))))
            stack.callback(lambda: [process.stop() for _, process in running.values()])
            stack.callback(lambda: [process.ask_to_end() for _, process in running.values()])
            # It is added last and so called first, as a trial that waits for cores cannot end.
            stack.callback(lender.release)
            while waiting or running:
                lender.poll()
                if time.monotonic() - looked_s < _WATCH_S:
                    time.sleep(_POLL_S)
                    continue
                looked_s = time.monotonic()
                for job, process in list(running.values()):
                    watch(job)
                    if (result := process.wait(0)) is not None:
                        del running[job.name]
                        lender.end(job.name)
                        yield from ended(job, result, waiting=waiting)
                while len(running) < most and (job := first_free(waiting)) is not None:
                    waiting.remove(job)
                    begin(job)
                    # Each trial has its own row: what an ended one has left there is no request.
                    row = jobs.index(job)
                    lender.begin(job.name, lease=Lease(file, row=row))
                    process = TrialProcess(job, forks=forks, lease=f"{file}:{row}")
                    running[job.name] = (job, process)


def _check(jobs: Sequence[Job]) -> None:
    """Refuses trials that cannot be lent cores, or whose seconds must be their own."""
    other = "use launcher.name=local"
    for job in jobs:
        if (seconds := job.config["budget"]["seconds"]) is not None:
            raise ConfigError(
                f"{job.name}: budget.seconds={seconds:g} under launcher.name=jigsaw: seconds of "
                f"trials that share cores are not their own. Give another budget, or {other}."
            )
        if (schedule := job.config["schedule"]["name"]) != "sync":
            raise ConfigError(
                f"{job.name}: schedule.name={schedule} under launcher.name=jigsaw: what a trial "
                f"does is to be one thing at a time. Give schedule.name=sync, or {other}."
            )
        engine = str(job.config["engine"]["name"])
        made: Any = registry.find("engine", engine)
        if made.beside or (accelerated() and engine == "vllm"):
            raise ConfigError(
                f"{job.name}: engine.name={engine} under launcher.name=jigsaw: CPU cores are lent, "
                f"to the trial's own process. Give engine.name=vllm without a GPU, or {other}."
            )
    if len(os.sched_getaffinity(0)) < 2:
        raise ConfigError(f"launcher.name=jigsaw lends cores, and here is one: {other}.")
