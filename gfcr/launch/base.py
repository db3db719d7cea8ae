"""The launcher contract: where and how many at a time a study's trials run.

A trial is a `gfcr run` process whatever the launcher. It writes its run folder, and run again it
resumes from there: a launcher may lose a process, never a result.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gfcr.experiment.source import Pause
from gfcr.launch.cores import Share
from gfcr.part import Part


@dataclass(frozen=True, kw_only=True)
class Job:
    """One trial to run, or to run on."""

    name: str
    """`arm/seed`."""
    config: Mapping[str, Any]
    """The experiment as plain values, as its YAML file would hold them."""
    folder: Path
    """Its run folder."""
    fresh: bool = False
    """Forget an earlier run of it."""
    until: Pause | None = None
    """Where it stops for now; None runs it to its end."""


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """What a trial's process answered."""

    job: Job
    result: Mapping[str, Any]
    """`gfcr run --json`; `{"status": "failed", "error": ...}` where there is no answer."""


Watch: TypeAlias = Callable[[Job], None]


class Launcher(Part):
    """Runs trials. The file name is the name."""

    def share(self, configs: Sequence[Mapping[str, Any]]) -> Share | None:
        """How trials of these configurations share this machine; None where it is not this one."""
        return None

    @abstractmethod
    def run(
        self,
        jobs: Sequence[Job],
        *,
        begin: Watch = lambda job: None,
        watch: Watch = lambda job: None,
    ) -> Generator[JobEnd, None, None]:
        """Runs the jobs and yields each as it ends; one that fails does not stop the others.

        Whoever stops iterating, by an interruption or `close()`, stops what is still running. The
        same jobs given again continue where they were.

        Args:
            jobs: in the order in which to start them.
            begin: called when a job's process is asked for.
            watch: called about twice a second for each job that is running.
        """
