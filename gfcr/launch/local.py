"""Launcher of trials on this machine."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from annotated_types import Interval

from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.launch.cores import Machine, Share, largest, share
from gfcr.launch.process import Forks, TrialProcess, ended, first_free, libraries_of

_POLL_S = 0.5


@final
@dataclass(kw_only=True)
class Local(Launcher):
    """Runs trials on this machine, those of small models side by side, a core each.

    Several sweeps of a study share its trials: a trial that another sweep runs is left to it.
    """

    parallel: Annotated[int, Interval(ge=1, le=10000)] | Literal["auto"] = "auto"
    """Trials at a time, which divide the cores evenly; `auto` runs small models side by side."""

    def share(self, configs: Sequence[Mapping[str, Any]]) -> Share:
        return share(largest(configs), parallel=self.parallel, machine=Machine.here())

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        waiting, running = list(jobs), dict[str, tuple[Job, TrialProcess, frozenset[int]]]()
        idle = [*self.share([job.config for job in jobs]).cores]
        with ExitStack() as stack:
            forks = stack.enter_context(closing(Forks(libraries_of(jobs))))
            # Last in, first out: all are asked before any is waited for.
            stack.callback(lambda: [process.stop() for _, process, _ in running.values()])
            stack.callback(lambda: [process.ask_to_end() for _, process, _ in running.values()])
            while waiting or running:
                while idle and (job := first_free(waiting)) is not None:
                    waiting.remove(job)
                    begin(job)
                    cores = idle.pop(0)
                    running[job.name] = (job, TrialProcess(job, forks=forks, cores=cores), cores)
                if not running:
                    time.sleep(_POLL_S)
                for job, process, cores in list(running.values()):
                    watch(job)
                    # The wait is divided, so that each is looked at twice a second.
                    result = process.wait(_POLL_S / len(running))
                    if result is not None:
                        del running[job.name]
                        idle.append(cores)
                        yield from ended(job, result, waiting=waiting)
