"""SIGINT and SIGTERM end a run as paused, with the way to go on, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr.process.signals import Interrupted, interruptible
from gfcr.tracking.folder import RunFolder
from tests.launchers import VALUES

LONG = {"name": "dry", "max_steps": 40, "save_every": 3}


def command(folder: Path, *words: str, **changes: Any) -> list[str]:
    file = folder / "experiment.yaml"
    values = {**VALUES, "folder": str(folder / "runs"), "trainer": LONG, **changes}
    file.write_text(yaml.safe_dump(values))
    return [sys.executable, "-m", "gfcr", *(words or ("run",)), str(file), "--json"]


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not glob(f"{folder}/**/{pattern}", recursive=True):  # folders may vanish meanwhile
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begun(line: list[str]) -> subprocess.Popen[str]:
    """Starts a process that hears SIGINT, also where the tests are a background job's."""

    def hear() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, text=True, preexec_fn=hear, **pipes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.whole)]
)
def test_a_run_is_paused_and_says_how_to_go_on(number: signal.Signals, tmp_path: Path) -> None:
    line = command(tmp_path)
    process = begun([*line, "--fresh"])
    wait_for(tmp_path, "checkpoint-*/gfcr_checkpoint.json")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    answer = json.loads(out)
    assert process.returncode == 128 + number
    assert answer["status"] == "paused" and answer["interrupted"] == number.name
    resume = f"gfcr run {tmp_path / 'experiment.yaml'} --json"
    assert answer["resume"] == resume and f"To go on: {resume}" in err
    folder = RunFolder(answer["folder"])
    assert folder.status == "paused" and answer["updates"] >= 3
    done = subprocess.run(line, capture_output=True, text=True)
    finished = json.loads(done.stdout)
    assert finished["status"] == "finished" and finished["resumed_from"] == answer["updates"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.whole)]
)
def test_a_sweep_tells_its_trials(number: signal.Signals, tmp_path: Path) -> None:
    arms = {"arms": {"a": {}, "b": {}}, "seeds": [0], "launcher": {"name": "local", "parallel": 2}}
    arms["trainer"] = {**LONG, "max_steps": 5000}
    process = begun([*command(tmp_path, "sweep", **arms), "--fresh"])
    for arm in "ab":
        wait_for(tmp_path / "runs", f"t/{arm}/*/checkpoints/checkpoint-*/gfcr_checkpoint.json")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert json.loads(out)["status"] == "paused" and "To go on: gfcr sweep" in err
    assert "trials that had not begun keep their earlier runs" in err
    runs = [RunFolder(card.parent) for card in tmp_path.rglob("run.json")]
    assert [run.status for run in runs] == ["paused"] * 2


@pytest.mark.whole
@pytest.mark.slow
def test_a_trial_that_was_interrupted_alone_is_named(tmp_path: Path) -> None:
    arms = {"arms": {"a": {}, "b": {}}, "seeds": [0], "trainer": {**LONG, "max_steps": 400}}
    arms["launcher"] = {"name": "local", "parallel": 1}
    process = begun(command(tmp_path, "sweep", **arms))
    wait_for(tmp_path / "runs", "t/a/*/checkpoints/checkpoint-*/gfcr_checkpoint.json")
    found = subprocess.run(
        ["pgrep", "-f", f"gfcr.launch.child .*{tmp_path}"], capture_output=True, text=True
    )
    os.kill(int(found.stdout), signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    trials = {t["arm"]: t for t in json.loads(out)["trials"]}
    assert process.returncode == 1 and trials["b"]["status"] == "finished"
    assert trials["a"]["status"] == "paused" and "SIGTERM" in trials["a"]["problem"]


def test_the_second_sigint_ends_at_once() -> None:
    code = (
        "import time\n"
        "from gfcr.process.signals import interruptible\n"
        "with interruptible():\n"
        "    try:\n"
        "        print('up', flush=True); time.sleep(60)\n"
        "    finally:\n"
        "        print('ending', flush=True); time.sleep(60)\n"
    )
    process = begun([sys.executable, "-c", code])
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ending\n"
    for _ in range(2):  # whoever sends SIGTERM follows up with SIGKILL
        process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT


def test_a_signal_that_a_library_swallowed_is_heard_later() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible() as heard:
        assert not heard.asked()
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard.asked()
        with pytest.raises(Interrupted, match="SIGTERM"):
            heard.check()
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
