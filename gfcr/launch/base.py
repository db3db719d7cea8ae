"""The launcher contract: where a study's trials run, and how many at a time.

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
    """A trial to run, or to continue."""

    name: str
    """Name of the trial, `arm/seed`."""
    config: Mapping[str, Any]
    """The experiment as plain values, as its YAML file would hold them."""
    folder: Path
    """Run folder of the trial."""
    fresh: bool = False
    """Whether to discard an earlier run of the trial."""
    accept_data: bool = False
    """Whether to resume although prompts, the model or code of the user's own have changed."""
    until: Pause | None = None
    """Point at which the trial pauses; None runs it to its end."""


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """The result of a trial's process."""

    job: Job
    result: Mapping[str, Any]
    """Output of `gfcr run --json`; `{"status": "failed", "error": ...}` if there is none."""


Watch: TypeAlias = Callable[[Job], None]


class Launcher(Part):
    """Runs a study's trials. The file name is the name."""

    def share(self, configs: Sequence[Mapping[str, Any]]) -> Share | None:
        """Returns how trials of these configurations share this machine; None: they do not."""
        return None

    @abstractmethod
    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """Runs the jobs and yields each as it ends; one that fails does not stop the others.

        Closing the generator, also by an interruption, stops the trials that are still running.
        Given again, they continue where they were.

        Args:
            jobs: the trials, in the order in which to start them.
            begin: called when a job's process is started or submitted.
            watch: called about twice a second for each job that is running.
        """
