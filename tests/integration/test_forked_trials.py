"""A trial forked from a process that has vLLM, TRL and MLflow loaded is the fresh one, sooner."""

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gfcr import sweep
from gfcr.config import as_dict
from gfcr.launch.base import Job
from gfcr.launch.process import Forked, Forks, TrialProcess, libraries_of
from gfcr.tracking.folder import RunFolder

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.vllm,
]
TIMED = ("seconds", "_s", "per_s", "r_gen", "sync_share", "seconds_per_update")


def jobs(folder: Path) -> list[Job]:
    values: dict[str, Any] = {
        "study": "forked",
        "model": "demo",
        "folder": str(folder / "runs"),
        "engine": {"name": "vllm", "kv_cache_gib": 0.25},
        "trainer": {"name": "trl", "max_steps": 2},
        "tracking": {"name": "mlflow", "uri": f"sqlite:///{folder}/store.db"},
        "prompts": 4,
        "evaluation": {"prompts": 8},
        "strategy": {"name": "grpo", "group_size": 4},
        "arms": {"a": {}, "b": {}},
        "seeds": [0],
    }
    study = sweep.from_values(values, where="t")
    return [Job(name=t.name, config=as_dict(t.config), folder=t.folder) for t in study.trials]


def ended(job: Job, *, forks: Forks | None) -> dict[str, Any]:
    trial = TrialProcess(job, forks=forks, cores=[min(os.sched_getaffinity(0))])
    assert isinstance(trial._process, Forked) == (forks is not None)
    while (result := trial.wait(600)) is None:
        pass
    assert result["status"] == "finished", result
    return result


def counted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if not name.endswith(TIMED) and not name.startswith("time/")
    }


@pytest.mark.whole
def test_a_forked_run_leaves_the_records_of_a_fresh_one(tmp_path: Path) -> None:
    forked, fresh = (jobs(tmp_path / name)[0] for name in ("forked", "fresh"))
    with closing(Forks(libraries_of(jobs(tmp_path / "forked")))) as forks:
        results = [ended(forked, forks=forks), ended(fresh, forks=None)]
    for key in ("tokens", "heldout", "updates", "verifier_calls", "certificate"):
        assert results[0][key] == results[1][key]
    files = [sorted(job.folder.rglob("update-*.parquet")) for job in (forked, fresh)]
    assert len(files[0]) == 2
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]
    lines = [
        [(line.step, counted(line.metrics)) for line in RunFolder(job.folder).metrics()]
        for job in (forked, fresh)
    ]
    assert lines[0] == lines[1] and max(len(metrics) for _, metrics in lines[0]) > 20
    cards = [json.loads((job.folder / "run.json").read_text()) for job in (forked, fresh)]
    assert cards[0]["tags"] == cards[1]["tags"] and cards[0]["tags"]["gfcr.cores"] == "1"
    assert cards[0]["run_id"] == cards[1]["run_id"]
