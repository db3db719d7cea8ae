"""`python -m tests.integration.forked_pairs 5`: how much sooner forked trials are than fresh ones.

Alternates forked and fresh trials of one experiment on vLLM, TRL and MLflow, the order changing
from pair to pair, after one that has waited for the imports. Prints for each trial the seconds from
when it is asked for to its first update and to its end, and its `wall_s`; then of the differences
(fresh minus forked) the median, the smallest and the largest.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from gfcr.launch.base import Job
from gfcr.launch.process import Forked, Forks, TrialProcess, libraries_of
from tests.integration.test_forked_trials import jobs


def timed(job: Job, *, forks: Forks | None) -> dict[str, float]:
    """Seconds from now to the trial's first update and to its end, and the run's own clock."""
    log = job.folder.with_name(f"{job.folder.name}.log")
    began, first = time.monotonic(), 0.0
    trial = TrialProcess(job, forks=forks)
    assert isinstance(trial._process, Forked) == (forks is not None)
    while (result := trial.wait(0.05)) is None:
        if not first and "update 1:" in log.read_text():
            first = time.monotonic() - began
    assert result["status"] == "finished", result
    end = time.monotonic() - began
    return {"update 1": first, "end": end, "wall_s": result["wall_s"]}


def main() -> None:
    """Prints the pairs, one trial a line, and their differences."""
    pairs: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        with closing(Forks(libraries_of(jobs(base)))) as forks:
            timed(jobs(base / "first")[0], forks=forks)
            for number in range(int(sys.argv[1])):
                kinds = [("forked", forks), ("fresh", None)]
                pairs.append({})
                for kind, source in kinds if number % 2 else reversed(kinds):
                    seconds = timed(jobs(base / f"{kind}-{number}")[0], forks=source)
                    pairs[-1][kind] = {k: round(v, 1) for k, v in seconds.items()}
                    print(number, kind, json.dumps(pairs[-1][kind]), f"load {os.getloadavg()[0]}")
    for figure in ("update 1", "end", "wall_s"):
        sooner = [pair["fresh"][figure] - pair["forked"][figure] for pair in pairs]
        low, high = min(sooner), max(sooner)
        print(f"{figure}: median {statistics.median(sooner):.1f} s ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
