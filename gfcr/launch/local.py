"""Trials on this machine."""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Interval

from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.launch.forked import Forks, libraries_of
from gfcr.launch.process import TrialProcess, is_held

_POLL_S = 0.5


@final
@dataclass(kw_only=True)
class Local(Launcher):
    """Runs trials on this machine, one after the other by default.

    Several sweeps of a study share its trials: one that another sweep runs is left until it ends.
    """

    parallel: Annotated[int, Interval(ge=1, le=10000)] = 1
    """Trials at a time: each takes the cores and the memory of an engine and a trainer."""

    def run(
        self,
        jobs: Sequence[Job],
        *,
        begin: Watch = lambda job: None,
        watch: Watch = lambda job: None,
    ) -> Generator[JobEnd, None, None]:
        """See `Launcher.run`."""
        waiting, running = list(jobs), dict[str, tuple[Job, TrialProcess]]()
        with ExitStack() as stack:
            forks = stack.enter_context(closing(Forks(libraries_of(jobs))))
            # Last in, first out: all are asked before any is waited for.
            stack.callback(lambda: [process.stop() for _, process in running.values()])
            stack.callback(lambda: [process.ask_to_end() for _, process in running.values()])
            while waiting or running:
                while len(running) < self.parallel and (job := _free(waiting)) is not None:
                    waiting.remove(job)
                    begin(job)
                    running[job.name] = (job, TrialProcess(job, forks=forks))
                if not running:
                    time.sleep(_POLL_S)
                for job, process in list(running.values()):
                    watch(job)
                    result = process.wait(_POLL_S / len(running))
                    if result is not None:
                        del running[job.name]
                        yield JobEnd(job=job, result=result)


def _free(waiting: Sequence[Job]) -> Job | None:
    """The first trial that no other process runs."""
    return next((job for job in waiting if not is_held(job)), None)
