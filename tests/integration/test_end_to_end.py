"""vLLM, TRL and MLflow through the command line, killed, told to end, and resumed. About 80 s."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import is_locked
from gfcr.tracking.mlflow_store import read_runs
from tests.integration.cli import QUICK, gfcr, start, wait_for
from tests.integration.tiny_model import reference_logprobs

pytestmark = pytest.mark.vllm

UPDATES = 6
RUN = ("run", *QUICK, f"trainer.max_steps={UPDATES}", "trainer.save_every=2")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that has ended."""

    result: Mapping[str, Any]
    cwd: Path

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.cwd / self.result["folder"])

    @property
    def updates(self) -> list[Mapping[str, float]]:
        """The metrics of each update."""
        return [m.metrics for m in self.folder.metrics() if "train/loss" in m.metrics]

    @cached_property
    def rollouts(self) -> list[dict[str, Any]]:
        """All rollouts, as a user loads them."""
        import datasets

        files = sorted(map(str, self.folder.rollouts.glob("*.parquet")))
        cache = str(self.cwd / "cache")
        loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
        return loaded.to_list()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    return Ran(result=gfcr(*RUN, folder=folder), cwd=folder)


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A run that was stopped, and what was said when it was."""

    cwd: Path
    second: Mapping[str, Any]
    """Of another run on the folder, meanwhile."""
    paused: Mapping[str, Any]
    codes: tuple[int, int]
    """Exit codes of the two."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """The same run, killed in its fourth update; again, and told to end in its next checkpoint."""
    folder = tmp_path_factory.mktemp("stopped")
    process = start(*RUN, "--json", folder=folder)
    wait_for(process, "update-000003.parquet", folder=folder)
    process.kill()
    process.wait()
    (card,) = folder.rglob("run.json")
    process = start(*RUN, "--json", folder=folder)
    while not is_locked(card.parent):
        assert process.poll() is None
    other = start(*RUN, "--json", folder=folder)
    second = json.loads(other.communicate(timeout=100)[0])
    wait_for(process, "checkpoint-4/model.safetensors", folder=folder)
    process.terminate()
    paused = json.loads(process.communicate(timeout=100)[0])
    codes = (other.returncode, process.returncode)
    return Stopped(cwd=folder, second=second, paused=paused, codes=codes)


@pytest.fixture(scope="module")
def resumed(stopped: Stopped) -> Ran:
    """The run that was stopped, to its end."""
    return Ran(result=gfcr(*RUN, folder=stopped.cwd), cwd=stopped.cwd)


def test_a_run_prints_its_result(whole: Ran) -> None:
    result, tokens = whole.result, dict(whole.result["tokens"])
    assert result["strategy"] == result["arm"] == "dapo" and len(result["run_id"]) == 12
    assert (result["status"], result["updates"], result["resumed_from"]) == ("finished", UPDATES, 0)
    remainder, generated = tokens.pop("remainder"), tokens.pop("generated")
    assert remainder == 0 and generated == sum(tokens.values())
    assert min(tokens["trained"], tokens["evaluation"]) > 0
    for point in (result["heldout"]["before"], result["heldout"]["after"]):
        assert point["n"] == len(point["per_prompt"]) == 16
        assert point["accuracy"] == pytest.approx(np.mean(list(point["per_prompt"].values())))
    assert 0 < result["r_gen"] < 1 and 0 < result["time"]["step_s"] < result["wall_s"]
    rate = (generated - tokens["evaluation"]) / result["time"]["rollout_s"]
    assert result["rollout_tokens_per_s"] == pytest.approx(rate)


def test_rollouts_are_a_dataset_that_agrees_with_the_ledger(whole: Ran) -> None:
    assert {row["update"] for row in whole.rollouts} == set(range(UPDATES))
    trained = sum(row["trained_tokens"] for row in whole.rollouts)
    assert trained == whole.result["tokens"]["trained"]
    for row in whole.rollouts:
        assert row["reward"] == float(row["completion"].partition("#")[2] == row["answer"])


def test_the_store_holds_the_nested_run_and_rebuilds_the_leaderboard(whole: Ran) -> None:
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{whole.cwd}/mlflow.db"
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("quickstart")
    runs = {r.info.run_id: r for r in client.search_runs([experiment.experiment_id])}
    (seed,) = [r for r in runs.values() if r.data.params.get("seed")]
    arm = runs[seed.data.tags["mlflow.parentRunId"]]
    study = runs[arm.data.tags["mlflow.parentRunId"]]
    assert len(runs) == 3 and "mlflow.parentRunId" not in study.data.tags
    assert seed.info.status == "FINISHED" and seed.data.tags["gfcr.strategy"] == "dapo"
    history = client.get_metric_history(seed.info.run_id, "reward/all")
    rewards = [p.value for p in sorted(history, key=lambda p: p.step)]
    assert rewards == [m["reward/all"] for m in whole.updates]
    (row,) = gfcr("leaderboard", "quickstart", "--uri", uri, folder=whole.cwd)["rows"]
    assert (row["arm"], row["seeds"]) == ("dapo", [0])
    assert row["score"]["value"] == whole.result["heldout"]["after"]["accuracy"]
    assert row["cost"]["generated_tokens"] == whole.result["tokens"]["generated"]


def test_the_engine_samples_from_the_policy_that_is_trained(whole: Ran) -> None:
    """In float32, token by token, against the checkpoint an update's rollouts were sampled from."""
    import torch
    from transformers import AutoModelForCausalLM

    gaps = [m["train/logprob_gap"] for m in whole.updates]
    assert len(gaps) == UPDATES and max(gaps) < 1e-5
    at = UPDATES - 2
    saved = whole.folder.path / "checkpoints" / f"checkpoint-{at}"
    policy = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32)
    worst = 0.0
    for row in (row for row in whole.rollouts if row["update"] == at):
        tokens, begin = [*row["prompt_tokens"], *row["tokens"]], len(row["prompt_tokens"]) - 1
        expected = reference_logprobs(policy, tokens)[begin:].numpy()
        worst = float(np.maximum(worst, np.abs(expected - row["logprobs"]).max()))  # keeps NaN
    print(f"largest log-prob difference after {at} updates: {worst:.1e}")
    assert worst < 1e-4


def test_the_share_of_weight_sync_is_reported(whole: Ran) -> None:
    assert all(0 < m["rate/sync_share"] < 1 for m in whole.updates)
    time = whole.result["time"]
    assert whole.result["sync_share"] == pytest.approx(time["sync_s"] / time["step_s"])
    print(f"sync: {whole.result['sync_share']:.2%} of steps of {time['step_s'] / UPDATES:.2f} s")


def test_a_killed_run_resumes_as_if_nothing_had_happened(whole: Ran, resumed: Ran) -> None:
    assert resumed.result["resumed_from"] in (2, 4)
    for key in ("run_id", "updates", "tokens", "heldout"):
        assert resumed.result[key] == whole.result[key]
    keys = ("rollout_id", "prompt_id", "tokens", "versions", "logprobs", "trained_tokens")
    ours, theirs = ([[row[k] for k in keys] for row in r.rollouts] for r in (whole, resumed))
    assert ours == theirs
    assert [m["train/loss"] for m in resumed.updates] == [m["train/loss"] for m in whole.updates]


def test_a_second_run_on_the_folder_and_sigterm_in_a_checkpoint_harm_nothing(
    stopped: Stopped, whole: Ran, resumed: Ran
) -> None:
    assert stopped.codes == (2, 128 + signal.SIGTERM)
    assert "is in use by process" in stopped.second["error"]
    assert stopped.paused["status"] == "paused" and stopped.paused["updates"] in (2, 4)
    assert stopped.paused["resume"].startswith("gfcr run ")
    assert resumed.result["resumed_from"] == stopped.paused["updates"]
    ours, theirs = (
        [(m.step, sorted(m.metrics)) for m in r.folder.metrics()] for r in (whole, resumed)
    )
    assert ours == theirs
    uri = f"sqlite:///{resumed.cwd / 'mlflow.db'}"
    (record,) = read_runs(uri, series=["train/loss"])
    losses = [
        (m.step, m.metrics["train/loss"])
        for m in resumed.folder.metrics()
        if "train/loss" in m.metrics
    ]
    assert record.status == "finished" and list(record.series["train/loss"]) == losses


def test_the_same_command_again_reports_the_result(whole: Ran) -> None:
    assert gfcr(*RUN, folder=whole.cwd) == whole.result
