"""`accelerate launch -m gfcr run` with two processes: killed, told to end, resumed, refused."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from safetensors.torch import load_file

from gfcr.config import read_experiment
from gfcr.errors import ConfigError, EngineError
from gfcr.experiment.check import check
from gfcr.experiment.resolved import resolve
from gfcr.process.launched import unlaunched
from gfcr.tracking.folder import RunFolder
from gfcr.train.ranks import Ranks
from tests import commands
from tests.cases import over
from tests.integration.cli import ROOT
from tests.integration.tiny_model import tiny_chain_sum

pytestmark = pytest.mark.timeout(600)

UPDATES = 12
BOUND_S = 90
"""Within which all processes have ended: the launcher kills what has not within 30 s."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(model: str, tmp_path: Path) -> Path:
    """With an experiment on the fake engine, half of whose answers are rewarded."""
    return written(tmp_path, model=model)


def written(folder: Path, *, model: str) -> Path:
    lines = [json.dumps({"question": f"{i}+{i}=?", "answer": ""}) for i in range(40)]
    (folder / "questions.jsonl").write_text("\n".join(lines))
    reward = "def odd(completion):\n    return float(len(completion) % 2)\n"
    (folder / "rewards.py").write_text(reward)
    trainer = {"name": "trl", "max_steps": UPDATES, "save_every": 2, "micro_batches": 2}
    task = {"name": "dataset", "path": "questions.jsonl", "prompt_column": "question"}
    values = {
        "study": "t",
        "model": model,
        "engine": {"name": "fake", "mean_length": 8, "max_length": 200},
        "task": task | {"heldout_fraction": 0.2, "verifier": "rewards.py:odd"},
        "trainer": trainer,
        "tracking": {"name": "local"},
        "prompts": 4,
        "sampling": {"max_tokens": 24},
        "evaluation": {"prompts": 4, "every": 4, "sampling": {"max_tokens": 24}},
        "strategy": {"name": "dapo", "group_size": 4},
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(values))
    return folder


def launcher() -> list[str]:
    """The command of docs/scale-out.md for two processes, up to what they run."""
    page = (ROOT / "docs" / "scale-out.md").read_text().splitlines()
    (line,) = [each for each in page if each.startswith("accelerate launch") and "ddp-2.y" in each]
    first, second, option, config, *rest = shlex.split(line)
    assert (first, second) == ("accelerate", "launch") and rest[:3] == ["-m", "gfcr", "run"]
    return launching(option, str(ROOT / config))


def launching(*options: str) -> list[str]:
    return [sys.executable, "-m", "accelerate.commands.launch", *options]


def launch(
    folder: Path, *words: str, command: str = "run", by: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Starts processes of `gfcr COMMAND`, two as on the page; stderr goes to a file."""
    line = [*(by or launcher()), "-m", "gfcr", command, "experiment.yaml", "--json", *words]
    with (folder / "stderr").open("a") as log:
        return subprocess.Popen(
            line,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    answer: Mapping[str, Any]
    said: str


def ended(process: subprocess.Popen[str], *, folder: Path, left: Sequence[int] = ()) -> Ended:
    """Waits for its end; none of the processes `left` may linger."""
    out, _ = process.communicate(timeout=BOUND_S)
    until = time.monotonic() + 10
    while any(is_there(pid) for pid in left):
        assert time.monotonic() < until, "a process lingers"
        time.sleep(0.1)
    answer = json.loads(out) if out.strip() else {}
    return Ended(code=process.returncode, answer=answer, said=(folder / "stderr").read_text())


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def pids(launcher: subprocess.Popen[str]) -> dict[int, int]:
    """Of the processes that train, by rank."""
    found: dict[int, int] = {}
    for pid in children(launcher.pid):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        rank = next((v for v in variables if v.startswith(b"RANK=")), b"")
        if rank:
            found[int(rank.removeprefix(b"RANK="))] = pid
    return found


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def wait_for(process: subprocess.Popen[str], pattern: str, *, folder: Path) -> None:
    deadline = time.monotonic() + 200
    while not glob(f"{folder}/**/{pattern}", recursive=True):  # folders may vanish meanwhile
        assert process.poll() is None, (folder / "stderr").read_text()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(model: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """A run of two processes that nothing disturbs."""
    folder = written(tmp_path_factory.mktemp("whole"), model=model)
    done = ended(launch(folder), folder=folder)
    assert done.code == 0, done.said[-3000:]
    return folder, done.answer


def losses(folder: Path, answer: Mapping[str, Any]) -> list[float]:
    lines = RunFolder(folder / answer["folder"]).metrics()
    return [m.metrics["train/loss"] for m in lines if "train/loss" in m.metrics]


def weights(folder: Path, answer: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return load_file(folder / answer["model"] / "model.safetensors")


def same(folder: Path, answer: Mapping[str, Any], *, whole: tuple[Path, Mapping[str, Any]]) -> None:
    """Nothing tells the run from one that was left alone."""
    assert answer["status"] == "finished" and answer["tokens"]["remainder"] == 0
    for key in ("run_id", "updates", "tokens", "heldout"):
        assert answer[key] == whole[1][key]
    assert losses(folder, answer) == losses(*whole)
    ours, theirs = weights(folder, answer), weights(*whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.whole
def test_two_processes_make_the_run_that_one_makes(
    whole: tuple[Path, Mapping[str, Any]], folder: Path
) -> None:
    done = commands.gfcr("run", "experiment.yaml", "--json", cwd=folder)
    one = json.loads(done.stdout)
    for key in ("run_id", "updates", "tokens"):
        assert one[key] == whole[1][key]
    assert losses(folder, one) == pytest.approx(losses(*whole), rel=1e-3, abs=1e-5)
    ours, theirs = weights(folder, one), weights(*whole)
    gap = max(float((ours[n] - theirs[n]).abs().max()) for n in theirs)
    print(f"after {UPDATES} updates weights of one and of two processes differ by {gap:.1e}")
    assert gap < 1e-4
    assert (whole[0] / whole[1]["model"] / "rng_state_1.pth").exists()


@pytest.mark.whole
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.whole), 1])
def test_a_process_that_is_killed_ends_all_and_the_same_command_goes_on(
    rank: int, folder: Path, whole: tuple[Path, Mapping[str, Any]]
) -> None:
    process = launch(folder)
    wait_for(process, "update-000005.parquet", folder=folder)
    found = pids(process)
    began = time.monotonic()
    os.kill(found[rank], signal.SIGKILL)
    broken = ended(process, folder=folder, left=found.values())
    print(f"process {rank} killed: all had ended after {time.monotonic() - began:.1f} s")
    assert broken.code != 0
    assert f"(local_rank: {rank})" in broken.said and "gfcr run: " in broken.said
    done = ended(launch(folder), folder=folder)
    assert done.code == 0 and done.answer["resumed_from"] in (2, 4, 6)
    same(folder, done.answer, whole=whole)


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_in_a_checkpoint(
    number: signal.Signals, folder: Path, whole: tuple[Path, Mapping[str, Any]]
) -> None:
    process = launch(folder)
    wait_for(process, "update-000005.parquet", folder=folder)
    found = pids(process)
    process.send_signal(number)
    told = ended(process, folder=folder, left=found.values())
    assert told.code != 0
    assert told.answer["status"] == "paused" and told.answer["interrupted"] == number.name
    assert "paused. To go on: gfcr run" in told.said
    done = ended(launch(folder), folder=folder)
    assert done.code == 0 and done.answer["resumed_from"] == told.answer["updates"] >= 2
    same(folder, done.answer, whole=whole)


CONFIGS = sorted((ROOT / "experiments" / "scale").glob("*.yaml"))


@over("file", CONFIGS, ids=lambda file: file.stem)
def test_accelerate_reads_a_configuration_of_as_many_processes_as_its_name_says(file: Path) -> None:
    kind, _, size = file.stem.partition("-")
    *hosts, each = map(int, size.split("x"))
    read: Any = load_config_from_file(str(file))  # refuses a key that it does not know
    assert read.distributed_type == {"ddp": "MULTI_GPU", "fsdp2": "FSDP"}[kind]
    assert read.num_machines == prod(hosts) and read.num_processes == prod(hosts) * each
    assert read.mixed_precision == "no" and "--" not in str(vars(read))


@pytest.mark.whole
@over("file", CONFIGS, ids=lambda file: file.stem)
def test_a_configuration_checks_a_run(file: Path, folder: Path) -> None:
    """With two processes of this machine in place of those of its GPUs."""
    here = ("--num_machines", "1", "--num_processes", "2", "--main_process_port", "0")
    process = launch(folder, "--dry-run", by=launching("--config_file", str(file), *here))
    told = ended(process, folder=folder)
    assert told.code == 0 and told.answer["would"] == "start", told.said[-3000:]
    assert not (folder / "runs").exists()


@pytest.mark.whole
def test_two_hosts_make_the_run_that_two_processes_make(
    folder: Path, whole: tuple[Path, Mapping[str, Any]]
) -> None:
    """Two launchers of a process each on this machine, by the configuration of two hosts."""
    file = ROOT / "experiments" / "scale" / "ddp-2x8.yaml"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--config_file", str(file), "--num_processes", "2", "--main_process_ip", "127.0.0.1")
    by = launching(*options, "--main_process_port", port, "--machine_rank")
    other = launch(folder, by=[*by, "1"])
    first = ended(launch(folder, by=[*by, "0"]), folder=folder)
    last = ended(other, folder=folder)
    assert first.code == last.code == 0, first.said[-3000:]
    assert not last.answer
    same(folder, first.answer, whole=whole)


def test_what_cannot_be_launched_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, value in {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    done = commands.gfcr("sweep", "experiment.yaml", cwd=folder)
    assert done.returncode == 2 and "only `gfcr run` trains in several" in done.stderr
    for change, said in (
        ("engine=vllm", "give engine.name=vllm_server"),
        ("trainer=dry", "give trainer.name=trl"),
    ):
        resolved = resolve(read_experiment(folder / "experiment.yaml", overrides=[change]))
        with pytest.raises(ConfigError, match=said):
            check(resolved)
    for size in ("2", "1"):  # torchrun starts one process alone, too
        monkeypatch.setenv("WORLD_SIZE", size)
        kept = unlaunched({"RANK": "0", "ACCELERATE_USE_CPU": "true", "PATH": "p"})
        assert kept == {"PATH": "p"}
    said = EngineError("the vLLM server was lost 4 times. Its last words: ProcessGroupNCCL.cpp")
    with pytest.raises(EngineError, match="Its last words"), Ranks(size=2).losses_told():
        raise said
