"""`gfcr config`: every value in force and where it came from; studies are not experiments."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.values import merging
from tests.cases import over
from tests.commands import gfcr
from tests.contract.sources import EXPERIMENTS


def files(*, study: bool) -> list[Path]:
    """The experiments, or the studies, that gfcr comes with."""
    return [f for f in EXPERIMENTS if any(k in merging.read(f) for k in configs.STUDY) is study]


BASE = """\
model: none
engine: {name: fake, mean_length: 6}
trainer:
  name: dry
  max_steps: 4
tracking: {name: local}
strategy: {name: april}
"""
OWN = """\
base: base.yaml
strategy:
  name: dapo
  max_rounds: 3
  filters:
    soft_overlong: null
    zero_variance: {min_std: 0.05}
"""
STUDY = """\
base: base.yaml
seeds: [4, 5]
factors:
  filter:
    plain: {name: grpo}
    dynamic: {name: dapo, max_rounds: 3}
  group:
    small: {group_size: 4}
    large:
      group_size: 16
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"base": BASE, "own": OWN, "study": STUDY}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def told(*words: object) -> Any:
    done = gfcr("config", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_value_says_where_it_came_from(folder: Path) -> None:
    origins = told(folder / "own.yaml", "trainer.max_steps=2", "seed=3")["origins"]
    assert origins["trainer.max_steps"] == origins["seed"] == "command line"
    assert origins["trainer.name"] == f"{folder}/base.yaml:4"
    assert origins["engine.mean_length"] == f"{folder}/base.yaml:2"
    assert origins["strategy.name"] == f"{folder}/own.yaml:3"
    assert origins["strategy.filters.zero_variance.min_std"] == f"{folder}/own.yaml:7"
    assert origins["strategy.controls.refill.max_rounds"] == f"{folder}/own.yaml:4 (max_rounds)"
    assert origins["strategy.controls.refill.oversample"] == "strategy dapo"
    assert origins["trainer.save_every"] == origins["sampling.top_k"] == "default"
    assert not any("soft_overlong" in key for key in origins)
    less = told(folder / "own.yaml", "~strategy.max_rounds", "~trainer.max_steps")["origins"]
    assert less["strategy.controls.refill.max_rounds"] == "strategy dapo"
    assert less["trainer.max_steps"] == "default"
    lines, printed = folder / "lines.yaml", folder / "printed.yaml"
    asked = '{name: plan_then_act, template: "{prompt}\\n${prompts} lines"}'
    lines.write_text(f"base: own.yaml\nstrategy: {{name: dapo, generate: {asked}}}\n")
    printed.write_text(gfcr("config", lines).stdout)
    template = configs.read_experiment(printed).strategy["generate"]["template"]
    assert template == "{prompt}\n32 lines"


def test_an_arm_has_the_values_of_its_factors(folder: Path) -> None:
    arm = told(folder / "study.yaml", "--arm", "dynamic+large")["arms"]["dynamic+large"]
    assert arm["values"]["strategy"]["group_size"] == 16
    assert arm["origins"]["strategy.group_size"] == f"{folder}/study.yaml:10"
    assert arm["origins"]["strategy.name"] == f"{folder}/study.yaml:6"
    rounds = arm["origins"]["strategy.controls.refill.max_rounds"]
    assert rounds == f"{folder}/study.yaml:6 (max_rounds)"
    assert arm["origins"]["roster.seeds"] == "the study"
    every = told(folder / "study.yaml")["arms"]
    assert [*every] == ["plain+small", "plain+large", "dynamic+small", "dynamic+large"]
    wrong = gfcr("config", folder / "study.yaml", "--arm", "dynamic+larg")
    assert wrong.returncode == 2 and "Did you mean 'dynamic+large'" in wrong.stderr


@pytest.mark.slow
@over("file", partial(files, study=False), ids=lambda file: file.name)
def test_what_it_prints_is_the_same_experiment(file: Path, tmp_path: Path) -> None:
    printed = tmp_path / "printed.yaml"
    printed.write_text(gfcr("config", file).stdout)
    before, after = (experiment.resolve(configs.read_experiment(each)) for each in (file, printed))
    assert before.spec == after.spec and before.run_id == after.run_id
    assert before.config.folder == after.config.folder


@pytest.mark.whole
@over("file", partial(files, study=True), ids=lambda file: file.name)
def test_what_it_prints_of_an_arm_is_the_same_trial(file: Path) -> None:
    documents = gfcr("config", file).stdout.split("---\n")
    trials = [arm[0] for arm in sweep.load(file, overrides=[]).arms.values()]
    for text, trial in zip(documents, trials, strict=True):
        assert f"# arm {trial.config.name}\n" in text
        values = yaml.safe_load(text)
        resolved = experiment.resolve(configs.experiment(values, where="printed"))
        assert resolved.run_id == trial.run_id


def test_a_study_is_not_run_and_an_experiment_is_not_swept(folder: Path) -> None:
    run = gfcr("run", folder / "study.yaml")
    assert run.returncode == 2 and f"gfcr sweep {folder}/study.yaml" in run.stderr
    swept = gfcr("sweep", folder / "own.yaml")
    assert swept.returncode == 2 and f"gfcr run {folder}/own.yaml" in swept.stderr
    assert not (folder / "runs").exists()


def test_a_base_that_cannot_be_read_is_told_with_who_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: theirs.yaml\nstrategy: grpo\n")
    done = gfcr("config", tmp_path / "mine.yaml")
    assert done.returncode == 2
    assert "mine.yaml: base is not to be had: " in done.stderr and "theirs.yaml" in done.stderr
