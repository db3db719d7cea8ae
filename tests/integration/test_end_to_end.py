"""vLLM, TRL and MLflow through the command line, killed, told to end, and resumed."""

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
from gfcr.tracking.rollouts import StoredUpdate, read_update
from tests import commands
from tests.integration.cli import QUICK, gfcr, start, wait_for
from tests.integration.tiny_model import reference_logprobs

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

UPDATES = 6
RUN = (
    *("run", *QUICK, f"trainer.max_steps={UPDATES}", "trainer.save_every=2"),
    "strategy.correction.name=truncated",
)


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

    @property
    def stored(self) -> list[StoredUpdate]:
        """Each update with what the correction made of it."""
        return [read_update(file) for file in self.folder.updates.values()]

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


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same run, killed in its fourth update, then to its end."""
    folder = tmp_path_factory.mktemp("killed")
    process = start(*RUN, "--json", folder=folder)
    wait_for(process, "update-000003.parquet", folder=folder)
    process.kill()
    process.wait()
    return Ran(result=gfcr(*RUN, folder=folder), cwd=folder)


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


def test_weights_and_masks_are_recorded_of_every_trained_rollout(whole: Ran) -> None:
    for held in whole.stored:
        trained = {r.id: r for g in held.groups for r in g.rollouts if (g.id, r.id) in held.trained}
        assert held.corrected.keys() == trained.keys()
        for name, (weight_T, mask_T) in held.corrected.items():
            assert (mask_T == trained[name].mask_T).all() and (weight_T > 0).all()
            assert (weight_T <= 2).all(), "the cap"


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
    went_on_as_one(resumed, whole=whole)


def went_on_as_one(resumed: Ran, *, whole: Ran) -> None:
    """Nothing of a run that went on, nor of its records, tells it from one that was left alone."""
    for key in ("run_id", "updates", "tokens", "heldout"):
        assert resumed.result[key] == whole.result[key]
    keys = ("rollout_id", "prompt_id", "tokens", "versions", "logprobs", "trained_tokens")
    ours, theirs = ([[row[k] for k in keys] for row in r.rollouts] for r in (whole, resumed))
    assert ours == theirs
    ours, theirs = ([held.corrected for held in r.stored] for r in (whole, resumed))
    assert repr(ours) == repr(theirs)
    assert [m["train/loss"] for m in resumed.updates] == [m["train/loss"] for m in whole.updates]
    lines, wanted = (
        [(m.step, sorted(m.metrics)) for m in r.folder.metrics()] for r in (resumed, whole)
    )
    assert lines == wanted
    uri = f"sqlite:///{resumed.cwd / 'mlflow.db'}"
    (record,) = read_runs(uri, series=["train/loss"])
    losses = [
        (m.step, m.metrics["train/loss"])
        for m in resumed.folder.metrics()
        if "train/loss" in m.metrics
    ]
    assert record.status == "finished" and list(record.series["train/loss"]) == losses


@pytest.mark.whole
def test_a_second_run_on_the_folder_and_sigterm_in_a_checkpoint_harm_nothing(
    whole: Ran, tmp_path: Path
) -> None:
    process = start(*RUN, "--json", folder=tmp_path)
    wait_for(process, "run.json", folder=tmp_path)
    (card,) = tmp_path.rglob("run.json")
    while not is_locked(card.parent):
        assert process.poll() is None
    second = commands.gfcr(*RUN, "--json", cwd=tmp_path)
    assert second.returncode == 2
    assert "is in use by process" in json.loads(second.stdout)["error"]
    wait_for(process, "checkpoint-4/model.safetensors", folder=tmp_path)
    process.terminate()
    paused = json.loads(process.communicate(timeout=100)[0])
    assert process.returncode == 128 + signal.SIGTERM
    assert paused["status"] == "paused" and paused["updates"] in (2, 4)
    assert paused["resume"].startswith("gfcr run ")
    resumed = Ran(result=gfcr(*RUN, folder=tmp_path), cwd=tmp_path)
    assert resumed.result["resumed_from"] == paused["updates"]
    went_on_as_one(resumed, whole=whole)


def test_the_same_command_again_reports_the_result(whole: Ran) -> None:
    assert gfcr(*RUN, folder=whole.cwd) == whole.result
