"""A library that is missing: the extra that brings it is named, whichever it is."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr.code import optional
from gfcr.errors import ConfigError
from tests.cases import over
from tests.commands import gfcr
from tests.contract.sources import LIBRARY, ROOT, imports
from tests.launchers import HERE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = {"gfcr", "gfcr_strategies", "benchmarks", "yaml"}  # pyyaml
BASE = {name.partition(">")[0].replace("-", "_") for name in PROJECT["dependencies"]} | OURS


def libraries() -> list[str]:
    """What gfcr imports beyond its base."""
    found = {i.top for path in LIBRARY for i in imports(path)}
    return sorted(found - BASE - sys.stdlib_module_names)


@over("name", libraries)
def test_every_library_that_gfcr_imports_is_of_the_base_or_an_extra(name: str) -> None:
    told = optional.missing(ModuleNotFoundError(name=f"{name}.inner"))
    assert told is not None and f"{name} is not installed: pip install 'gfcr[" in str(told)
    for extra in optional.extras_of(name):
        brought = [line.lower().replace("-", "_") for line in EXTRAS[extra]]
        assert any(line.startswith(name.lower()) for line in brought)


def test_what_is_in_no_extra_is_no_matter_of_ours() -> None:
    assert optional.missing(ModuleNotFoundError(name="no_such_library")) is None
    with pytest.raises(ModuleNotFoundError):
        optional.load("no_such_library")


def test_what_to_do_instead_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"gfcr\[notebooks\]', or leave --plot out\."):
        optional.load("matplotlib", instead=", or leave --plot out")


RUN: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake", "mean_length": 4},
    "trainer": {"name": "dry", "max_steps": 1},
    "tracking": {"name": "local"},
    "evaluation": {"prompts": 4},
}
STUDY = {"arms": {"grpo": {"strategy": "grpo"}}, "launcher": HERE}
MISSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "wandb": ("run", {"tracking": "wandb"}, "wandb"),
    "tensorboard": ("run", {"tracking": "tensorboard"}, "tensorboard"),
    "reasoning_gym": ("run", {"task": {"name": "reasoning_gym"}}, "tasks"),
    "datasets": ("run", {"task": {"name": "dataset", "path": "d.jsonl"}}, "train"),
    "transformers": ("run", {"engine": "vllm", "model": "policy"}, "train"),
    "ray": ("sweep", {**STUDY, "launcher": "ray"}, "ray"),
    "optuna": (
        "sweep",
        {"search": {"space": {"strategy.group_size": [4, 8]}, "trials": 2}, "launcher": HERE},
        "search",
    ),
}


@over("library", MISSING)
def test_a_command_names_the_extra(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, changes, extra = MISSING[library]
    (tmp_path / "it.yaml").write_text(yaml.safe_dump({**RUN, **changes}))
    (tmp_path / "d.jsonl").write_text('{"prompt": "1", "answer": "1"}\n' * 20)
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "config.json").write_text("{}")
    for name in [m for m in sys.modules if m.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    done = gfcr(command, "it.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"{library} is not installed: pip install 'gfcr[{extra}]'" in done.stderr


def test_a_run_without_mlflow_goes_on_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it.yaml").write_text(yaml.safe_dump({**RUN, "tracking": "mlflow"}))
    for name in [m for m in sys.modules if m.partition(".")[0] == "mlflow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    said = "mlflow is not installed: pip install 'gfcr[tracking]'"
    done = gfcr("run", "it.yaml", cwd=tmp_path)
    assert done.returncode == 0 and said in done.stderr
    uploaded = gfcr("upload", "runs", cwd=tmp_path)
    assert uploaded.returncode == 2 and said in uploaded.stderr
