"""A launcher for tests: trials in this process, and the small experiment they run."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.errors import GfcrError
from gfcr.launch.base import Job, JobEnd, Launcher, Watch

VALUES: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "task": {"name": "chain_sum", "num_train": 8, "num_heldout": 4},
    "trainer": {"name": "dry", "max_steps": 4},
    "tracking": {"name": "local"},
    "prompts": 2,
    "evaluation": {"prompts": 4, "every": 1},
    "strategy": {"name": "grpo", "group_size": 2},
}


def values_of(folder: Path, **changes: Any) -> dict[str, Any]:
    """What a study's file would hold."""
    return {**VALUES, "folder": str(folder), **changes}


HERE = f"{Path(__file__)}:Here"
"""What a study's file says to run its trials in the process that reads it."""


@final
@dataclass(kw_only=True)
class Here(Launcher):
    """Runs trials in this process: for runs of milliseconds a process each takes too long."""

    @staticmethod
    def study(values: Mapping[str, Any]) -> sweep.Study:
        """The study, run here."""
        return replace(sweep.from_values(values, where="t"), launcher=Here())

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`."""
        for job in jobs:
            begin(job)
            config = configs.experiment(job.config, where=job.name)
            try:
                result = experiment.run(config, fresh=job.fresh, until=job.until)
            except GfcrError as error:
                result = {"status": "failed", "error": str(error)}
            yield JobEnd(job=job, result=result)


def launched(
    launcher: Launcher,
    jobs: Sequence[Job],
    *,
    begin: Watch = lambda job: None,
    watch: Watch = lambda job: None,
) -> Generator[JobEnd]:
    """Runs trials, with what a test wants to be told."""
    return launcher.run(jobs, begin=begin, watch=watch)
