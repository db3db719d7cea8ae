"""Schedules on vLLM's own server, beside TRL: the bound, what equals what, kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors.torch import load_file

from gfcr import config as configs
from gfcr import experiment, registry
from gfcr import strategy as strategies
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.vllm_server import VllmServer
from gfcr.pipeline import Pipeline
from gfcr.schedule.ahead import Ahead
from gfcr.schedule.lag import Lag
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.rollouts import read_update
from gfcr.types import Sampling
from tests.integration.cli import ROOT
from tests.integration.tiny_model import tiny_chain_sum
from tests.schedules import LAST, Work, ages, closed, trained

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

ASYNC: Any = registry.find("schedule", "async")
UPDATES = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def engine(model: str) -> Iterator[ServerEngine]:
    made = VllmServer(kv_cache_gib=0.25, max_running=32).start(model=model, seed=0)
    yield made
    made.close()


def server_of(engine: ServerEngine) -> Any:
    (server,) = engine.fleet.servers
    return server.process


def values(folder: Path, *, model: str, engine: ServerEngine, schedule: Any) -> dict[str, Any]:
    """An experiment on a server that runs already, half of whose answers are rewarded."""
    lines = [json.dumps({"question": f"{i}+{i}=", "answer": ""}) for i in range(40)]
    (folder / "questions.jsonl").write_text("\n".join(lines))
    reward = "def odd(completion):\n    return float(len(completion) % 2)\n"
    (folder / "rewards.py").write_text(reward)
    task = {"name": "dataset", "path": str(folder / "questions.jsonl")}
    task |= {"prompt_column": "question", "heldout_fraction": 0.2}
    exchange = folder / "exchange"
    return {
        "study": "t",
        "model": model,
        "engine": {
            "name": "vllm_server",
            "url": server_of(engine).url,
            "exchange": str(exchange),
            "kv_cache_gib": 0.25,
            "max_running": 32,
        },
        "task": task | {"verifier": f"{folder / 'rewards.py'}:odd"},
        "trainer": {"name": "trl", "max_steps": UPDATES, "save_every": 2, "micro_batches": 2},
        "schedule": schedule,
        "tracking": {"name": "local"},
        "prompts": 4,
        "sampling": {"max_tokens": 24},
        "evaluation": {"prompts": 4, "every": 2, "sampling": {"max_tokens": 24}},
        "strategy": {"name": "dapo", "group_size": 4, "correction": "truncated"},
        "folder": str(folder / "runs"),
    }


def run(given: Mapping[str, Any]) -> tuple[dict[str, Any], RunFolder]:
    result = experiment.run(configs.experiment(given, where="t"))
    return result, RunFolder(Path(result["folder"]))


def rollouts(records: RunFolder) -> list[dict[str, Any]]:
    """Tokens and log-probs of all that was made, update by update."""
    files = sorted((records.path / "rollouts").glob("update-*.parquet"))
    return [
        row for f in files for row in pq.read_table(f, columns=["tokens", "logprobs"]).to_pylist()
    ]


def metrics(records: RunFolder, name: str) -> list[float]:
    return [line.metrics[name] for line in records.metrics() if name in line.metrics]


@pytest.mark.whole  # two servers' draws; tests/unit/schedule has it token for token
def test_without_staleness_a_run_is_the_one_in_turn(
    model: str, engine: ServerEngine, tmp_path: Path
) -> None:
    plain = values(tmp_path, model=model, engine=engine, schedule="sync")
    bounded = {**plain, "schedule": {"name": "async", "staleness": 0}, "arm": "bounded"}
    (first, one), (second, other) = run({**plain, "arm": "plain"}), run(bounded)
    ours, theirs = rollouts(one), rollouts(other)
    assert [r["tokens"] for r in ours] == [r["tokens"] for r in theirs]
    assert first["tokens"] == second["tokens"] and len(ours) >= UPDATES * 16
    # Two runs of one schedule differ as much: a server batches what comes together.
    for mine, its in zip(ours, theirs, strict=True):
        assert np.allclose(mine["logprobs"], its["logprobs"], atol=1e-4)
    held = [load_file(Path(r["model"]) / "model.safetensors") for r in (first, second)]
    assert all(torch.allclose(held[0][name], held[1][name], atol=1e-4) for name in held[0])
    assert [point[3] for point in first["curve"]] == [point[3] for point in second["curve"]]


def test_a_run_ahead_of_its_trainer_keeps_its_bound_and_counts_every_token(
    model: str, engine: ServerEngine, tmp_path: Path
) -> None:
    schedule = {"name": "async", "staleness": 2}
    given = values(tmp_path, model=model, engine=engine, schedule=schedule)
    within_its_bound(*run(given), bound=2, updates=UPDATES)


def within_its_bound(
    result: Mapping[str, Any], records: RunFolder, *, bound: int, updates: int
) -> None:
    """Some rollouts are of an earlier policy, none of one further back than the bound."""
    assert result["status"] == "finished"
    assert result["tokens"]["remainder"] == 0 and "in_flight" not in result["tokens"]
    oldest = metrics(records, "off_policy/oldest")
    assert len(oldest) == updates and 0 < max(oldest) <= bound
    assert len(metrics(records, "time/exposed_s")) == updates
    stored = [read_update(file) for file in records.updates.values()]
    assert [{*held.corrected} for held in stored] == [
        {i for _, i in held.trained} for held in stored
    ]


@pytest.mark.whole  # tests/unit/schedule kills runs under every schedule, on the fake engine
@pytest.mark.parametrize("schedule", [{"name": "lag"}, {"name": "async", "staleness": 2}])
def test_a_run_that_is_killed_goes_on_within_its_bound(
    schedule: Any, model: str, engine: ServerEngine, tmp_path: Path
) -> None:
    given = values(tmp_path, model=model, engine=engine, schedule=schedule)
    given["trainer"]["max_steps"] = 12
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(given))
    command = [sys.executable, "-m", "gfcr", "run", str(file)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 240
    while not glob(f"{tmp_path}/**/checkpoint-6", recursive=True) and process.poll() is None:
        assert time.monotonic() < until, "no checkpoint was made"
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    result, records = run(given)
    assert result["resumed_from"] >= 4
    within_its_bound(result, records, bound=schedule.get("staleness", 1), updates=12)


@pytest.mark.whole
@pytest.mark.parametrize(
    "schedule", [pytest.param(Lag(), marks=pytest.mark.whole), ASYNC(staleness=2)]
)
def test_a_server_that_dies_beside_the_trainer_loses_nothing(
    schedule: Any, model: str, engine: ServerEngine
) -> None:
    codec, task = HfCodec(model), ChainSum(num_train=32, num_heldout=3)
    problems, policy = task.problems(codec), load_file(Path(model) / "model.safetensors")
    pipeline = Pipeline(
        strategies.load("grpo", group_size=4),
        engine=engine,
        task=task,
        train=problems.train,
        codec=codec,
        prompts=4,
        sampling=Sampling(max_tokens=48),
        seed=0,
    )
    made, starts = Work(pipeline), server_of(engine).starts

    def kill(step: int, run: Any) -> None:
        if step == 2:
            os.killpg(server_of(engine).pid, signal.SIGKILL)

    with Ahead(made, schedule=schedule, last=LAST, beside=True) as fed:
        batches = trained(fed, weights=lambda version: policy.items(), save=kill)
    pipeline.close()
    assert server_of(engine).starts == starts + 1
    assert len(batches) == LAST and max(ages(batches)) <= 2 and closed(made)
    spans = [s for b in batches for x in b.samples for s in x.rollout.spans]
    places = [(s.request_id, at) for s in spans for at in range(s.start, s.stop)]
    assert len(places) == len({*places}), "no token is trained on twice"
