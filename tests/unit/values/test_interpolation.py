"""Interpolation in experiment files: what it stands for, and that what cannot be had is named."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.errors import ConfigError
from gfcr.studies import opened
from gfcr.values import interpolation, merging
from gfcr.values.interpolation import literal, resolved
from gfcr.values.overrides import apply_overrides
from tests.cases import over
from tests.commands import gfcr
from tests.launchers import HERE, VALUES


def file(folder: Path, *, name: str = "experiment.yaml", **changes: Any) -> Path:
    path = folder / name
    values = {**VALUES, "folder": str(folder / "runs"), **changes}
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def made(folder: Path, *overrides: str, **changes: Any) -> configs.Experiment:
    return configs.read_experiment(file(folder, **changes), overrides=overrides)


NINE = {"sampling": {"max_tokens": 9}}
STANDS_FOR: list[tuple[dict[str, Any], Any, str]] = [
    ({"prompts": "${evaluation.prompts}"}, 4, "prompts"),
    ({"sampling": {"max_tokens": 160, "top_k": "${.max_tokens}"}}, 160, "sampling.top_k"),
    ({"evaluation": {"prompts": 4, "samples": "${..prompts}"}}, 2, "evaluation.samples"),
    ({**NINE, "evaluation": {"sampling": "${sampling}"}}, 9, "evaluation.sampling.max_tokens"),
    ({"prompts": "${oc.select:nothing.there,3}"}, 3, "prompts"),
    ({"study": "s${seed}"}, "s0", "study"),
    ({"study": "${oc.env:GFCR_NO_SUCH,plain}"}, "plain", "study"),
    ({"prompts": "${oc.decode:${oc.env:RUN_MAX_TOKENS,3}}"}, 3, "prompts"),
    ({"prompts": "${oc.decode:'3'}"}, 3, "prompts"),
    ({"compares": ["model", "engine.${engine.name}"]}, "engine.fake", "compares.1"),
    ({"strategy": {"name": "${baseline}"}, "baseline": "dapo"}, "dapo", "strategy.name"),
    ({"study": "\\${seed}"}, None, "study"),
    (
        {**NINE, "evaluation": {"sampling": {"max_tokens": "${sampling.max_tokens}"}}},
        9,
        "evaluation.sampling.max_tokens",
    ),
]


@over("case", STANDS_FOR, ids=lambda case: str(case[0]))
def test_it_stands_for_the_value(case: tuple[dict[str, Any], Any, str], tmp_path: Path) -> None:
    changes, value, place = case
    if value is None:  # escaped, it is itself, and no name of a study
        with pytest.raises(ConfigError, match=r"study='\$\{seed\}'"):
            made(tmp_path, **changes)
        return
    found: Any = configs.as_dict(made(tmp_path, **changes))
    for key in place.split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    assert found == value


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompts": "${prompts}"}, "prompts='\\${prompts}' .* Recursive"),
    ({"prompts": "${seed}", "seed": "${prompts}"}, "(prompts|seed)=.* Recursive"),
    ({"sampling": {"max_tokens": "${.top_k}", "top_k": "${.max_tokens}"}}, "sampling.* Recursive"),
    ({"evaluation": {"sampling": "${evaluation}"}}, "evaluation.sampling='\\${evaluation}'"),
    ({"prompts": "${evaluation.promts}"}, "evaluation.promts.* Did you mean 'evaluation.prompts'"),
    ({"prompts": "${nothing}"}, "prompts='\\${nothing}' .*not found"),
    ({"prompts": "${.nothing}"}, "prompts='\\${.nothing}'"),
    ({"prompts": "${...nothing}"}, "prompts='\\${...nothing}'"),
    ({"prompts": "${"}, "prompts='\\${'"),
    ({"prompts": "${}"}, "prompts='\\${}'"),
    ({"prompts": "${a b}"}, "prompts='\\${a b}'"),
    ({"prompts": "${oc.env:GFCR_NO_SUCH}"}, "prompts=.*GFCR_NO_SUCH"),
    ({"prompts": "${oc.envv:HOME}"}, "no resolver 'oc.envv'.*Did you mean 'oc.env'"),
    ({"prompts": "${hydra:job.num}"}, "no resolver 'hydra'"),
    ({"prompts": "${oc.env:HF_TOKEN}"}, "HF_TOKEN is a secret"),
    ({"prompts": "${oc.env:MAX_TOKEN}"}, "MAX_TOKEN is a secret"),
    ({"prompts": "${oc.env:API_TOKENS}"}, "API_TOKENS is a secret"),
    ({"study": "x${oc.env:AWS_SECRET_ACCESS_KEY,none}"}, "AWS_SECRET_ACCESS_KEY is a secret"),
    ({"study": "${oc.env:'WANDB_API_KEY'}"}, "WANDB_API_KEY is a secret"),
    ({"tracking": {"name": "mlflow", "uri": "${oc.env:DB_PASSWORD}"}}, "DB_PASSWORD is a secret"),
    ({"prompts": "${study}", "study": "two"}, "prompts='two' is not allowed: give an integer"),
    ({"prompts": "${sampling}", "sampling": {"top_k": 3}}, "prompts={.*an integer"),
    ({"prompts": "${oc.decode:'['}"}, "prompts=.*GrammarParseError"),
    ({"prompts": "${oc.decode:'two'}"}, "prompts='two' is not allowed: give an integer"),
    ({"prompts": "${oc.select:nothing}"}, "prompts=None is not allowed"),
    ({"prompts": "???"}, "prompts must be given"),
    ({"evaluation": {"prompts": "???"}}, "evaluation.prompts must be given"),
    ({"strategy": {"name": "???"}}, "strategy.name must be given"),
    (
        {"prompts": "${evaluation.prompts}", "evaluation": {"prompts": "???"}},
        "must be given|not found",
    ),
    ({"compares": ["${nothing}"]}, "compares\\[0\\]='\\${nothing}'"),
    ({"strategy": {"name": "${nothing}"}}, "strategy.name='\\${nothing}'"),
    ({"strategy": {"name": "${study}"}, "study": "dpao"}, "'dpao' in strategy.name. Did you mean"),
    ({"strategy": {"name": "dapo", "filters": {"z": {"min_std": "${seed}x"}}}}, "filters"),
    ({"strategy": {"name": "dapo", "group_size": "${study}"}, "study": "x"}, "group_size='x'"),
    ({"${study}": 1}, "unknown key '\\${study}'"),
    ({"sampling": {"${study}": 1}}, "\\${study}"),
    ({"sampling": "${study}", "study": "x"}, "sampling='x' is not allowed: give a mapping"),
    ({"engine": {"name": "fake", "mean_length": "${oc.create:{a:1}}"}}, "mean_length"),
    ({"trainer": {"name": "dry", "max_steps": "${seed}"}}, "max_steps=0"),
    ({"seed": "${oc.env:HOME}"}, "seed="),
    ({"study": "${folder}"}, "study="),
    ({"written": "x"}, "written"),
]


@over("case", REFUSED, ids=lambda case: str(case[0]))
def test_what_cannot_be_had_is_refused_by_name_before_anything_starts(
    case: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    changes, said = case
    done = gfcr("run", file(tmp_path, **changes), "--json")
    assert done.returncode == 2, done.stdout
    told = json.loads(done.stdout)["error"]
    assert re.search(said, " ".join(told.split())), told
    assert not (tmp_path / "runs").exists()


def test_the_file_and_the_line_are_said(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("prompts: 4\nsampling:\n  max_tokens: ${nothing.here}\n")
    (tmp_path / "own.yaml").write_text("base: base.yaml\nstrategy: grpo\n")
    with pytest.raises(ConfigError, match=r"base\.yaml:3: .*sampling\.max_tokens="):
        configs.read_experiment(tmp_path / "own.yaml")
    (tmp_path / "base.yaml").write_text("prompts: 4\nsampling:\n\n  max_tokens: ???\n")
    with pytest.raises(ConfigError, match=r"base\.yaml:4: .*sampling\.max_tokens must be given"):
        configs.read_experiment(tmp_path / "own.yaml")
    (tmp_path / "above.yaml").write_text("base: own.yaml\nprompts: ???\n")
    with pytest.raises(ConfigError, match=r"above\.yaml:2: .*prompts must be given"):
        configs.read_experiment(tmp_path / "above.yaml", overrides=["sampling.max_tokens=7"])
    study = {**VALUES, "prompts": 2, "arms": {"a": {}, "b": {"prompts": "${nothing}"}}}
    (tmp_path / "study.yaml").write_text(text := yaml.safe_dump(study, sort_keys=False))
    line = text.splitlines().index("    prompts: ${nothing}") + 1
    with pytest.raises(ConfigError, match=rf"study\.yaml:{line}: .*arms\.b.*prompts="):
        sweep.load(tmp_path / "study.yaml", overrides=[])
    given = configs.read_experiment(tmp_path / "own.yaml", overrides=["sampling.max_tokens=7"])
    assert given.sampling.max_tokens == 7


def test_bases_come_from_first_to_last_and_interpolation_after_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("prompts: 1\nstudy: one\nseed: ${prompts}\n")
    (tmp_path / "two.yaml").write_text("prompts: 2\nevaluation: {samples: '${prompts}'}\n")
    (tmp_path / "own.yaml").write_text("base: [one.yaml, two.yaml]\nstrategy: grpo\n")
    found = configs.read_experiment(tmp_path / "own.yaml", overrides=["prompts=5"])
    assert (found.prompts, found.study, found.seed, found.evaluation.samples) == (5, "one", 5, 5)
    (tmp_path / "one.yaml").write_text("base: [two.yaml, own.yaml]\nprompts: 1\n")
    with pytest.raises(ConfigError, match=r"own.yaml -> one.yaml -> own.yaml.*leave one out"):
        merging.read(tmp_path / "own.yaml")
    (tmp_path / "own.yaml").write_text("base: [one.yaml, 3]\n")
    with pytest.raises(ConfigError, match=r"base=.* a list of them"):
        merging.read(tmp_path / "own.yaml")


TWELVE = {"sampling": {"max_tokens": 12}}


def test_with_and_without_it_is_the_same_run_and_the_record_keeps_both(tmp_path: Path) -> None:
    plain = made(tmp_path, **TWELVE, evaluation={"prompts": 4, "sampling": {"max_tokens": 12}})
    asked = {"prompts": 4, "sampling": {"max_tokens": "${sampling.max_tokens}"}}
    other = made(tmp_path, **TWELVE, evaluation=asked)
    assert experiment.resolve(plain).spec == experiment.resolve(other).spec
    assert experiment.resolve(plain).run_id == experiment.resolve(other).run_id
    result = experiment.run(other)
    kept = configs.of_run(result["folder"])
    assert OmegaConf.is_interpolation(kept.evaluation.sampling, "max_tokens")
    again = tmp_path / "again.yaml"
    again.write_text(OmegaConf.to_yaml(kept))
    assert experiment.resolve(configs.read_experiment(again)).run_id == result["run_id"]
    spec = json.loads((Path(result["folder"]) / "run.json").read_text())["spec"]
    assert spec["evaluation"]["sampling"]["max_tokens"] == 12


def test_each_arm_resolves_by_its_own_values(tmp_path: Path) -> None:
    shared = {**VALUES, "folder": str(tmp_path), "evaluation": {"samples": "${prompts}"}}
    arms = {
        "a": {"strategy": "grpo", "prompts": 2},
        "b": {"strategy": "rloo", "prompts": "${seed}"},
    }
    study = {**shared, "seeds": [3, 4], "arms": arms, "baseline": "${arms}"}
    with pytest.raises(ConfigError, match=r"arms\.b has evaluation\.samples=4"):
        sweep.from_values({**study, "baseline": "a"}, where="t")
    shared["evaluation"] = {"samples": 2}
    made = sweep.from_values({**study, **shared, "baseline": "a"}, where="t")
    sizes = {(t.config.name, t.config.seed): t.config.prompts for t in made.trials}
    assert sizes == {("a", 3): 2, ("a", 4): 2, ("b", 3): 3, ("b", 4): 4}


def test_a_trial_of_a_sweep_is_what_its_file_says(tmp_path: Path) -> None:
    study = file(
        tmp_path,
        name="study.yaml",
        arms={"a": {}, "b": {"strategy": {"group_size": "${evaluation.prompts}"}}},
        seeds=[0],
        launcher=HERE,
    )
    done = gfcr("sweep", study, "--json")
    assert done.returncode == 0, done.stderr
    (kept,) = (tmp_path / "runs" / "t" / "b").glob("*/config.yaml")
    assert "${evaluation.prompts}" in kept.read_text()
    told = gfcr("config", study, "--arm", "b", "--json")
    origins = json.loads(told.stdout)["arms"]["b"]["origins"]
    assert origins["strategy.group_size"].endswith("(${evaluation.prompts})")


@over("text", ["${x}", "a\\${x}", "\\\\${x}", "$x", "\\", "${oc.env:HOME} ${"])
def test_a_text_can_be_written_so_that_it_means_itself(text: str) -> None:
    assert resolved({"a": literal(text)}, where="t") == {"a": text}


def test_resolvers_come_from_installed_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point("twice", lambda n: 2 * n), Point("fails", lambda: 1 / 0)]
    monkeypatch.setattr(interpolation, "entry_points", lambda group: points)
    interpolation._own.cache_clear()
    try:
        found = resolved({"a": 3, "b": "${twice:${a}}", "c": "${oc.env:TOKENIZERS,x}"}, where="t")
        assert found == {"a": 3, "b": 6, "c": "x"}
        with pytest.raises(ConfigError, match=r"t: b='\$\{fails:\}' is not allowed: ZeroDivision"):
            resolved({"b": "${fails:}"}, where="t")
    finally:
        interpolation._own.cache_clear()


@dataclass
class Point:
    """An entry point of an installed distribution."""

    name: str
    function: Callable[..., Any]

    def load(self) -> Callable[..., Any]:
        return self.function


def test_what_is_printed_of_such_a_text_is_the_same_run(tmp_path: Path) -> None:
    task = {"name": "dataset", "path": "rows.jsonl", "system": "It costs \\${price}."}
    path = file(tmp_path, task={**task, "verifier": "exact"})
    printed = tmp_path / "printed.yaml"
    printed.write_text(gfcr("config", path).stdout)
    one, other = (configs.read_experiment(p) for p in (path, printed))
    assert one.task["system"] == other.task["system"] == "It costs ${price}."
    assert experiment.resolve(one).run_id == experiment.resolve(other).run_id
    assert configs.experiment(configs.as_dict(one), where="t").task == one.task


def test_overrides_are_hydras() -> None:
    values = {"a": {"words": ["x", "y"], "n": 1}, "strategy": {"name": "dapo", "max_rounds": 3}}

    def after(*overrides: str) -> dict[str, Any]:
        return apply_overrides(values, overrides)

    assert after("a.words[1]=z")["a"]["words"] == ["x", "z"]
    assert after("+a.new=[1, 2]")["a"]["new"] == [1, 2]
    for whatever in ("~a.n", "~a.n=", "~a.n=1"):
        assert after(whatever)["a"] == {"words": ["x", "y"]}
    assert after("~strategy=dapo") == after("~strategy") == {"a": values["a"]}
    assert after("strategy=grpo")["strategy"] == {"name": "grpo"}
    assert after("strategy.max_rounds=${a.n}")["strategy"]["max_rounds"] == "${a.n}"
    # One names the part and the other sets it, in any order; a file's settings of another go.
    for order in (["strategy=grpo", "strategy.n=4"], ["strategy.n=4", "strategy=grpo"]):
        assert after(*order)["strategy"] == {"n": 4, "name": "grpo"}
        inner = [word.replace("strategy", "strategy.drafter") for word in order]
        for held in ("das", {"name": "das", "k": 1}, {"k": 1}, None):
            strategy = {"name": "spo", "drafter": held}
            made = apply_overrides({"strategy": strategy}, inner)["strategy"]["drafter"]
            assert made == {"n": 4, "name": "grpo"}
    without = apply_overrides({"strategy": {"drafter": "none"}}, ["strategy.drafter.n=4"])
    assert without["strategy"]["drafter"] == {"n": 4}, "the strategy's own"
    for place, key in (("strategy", "drafter"), ("evaluation", "generate")):
        named = apply_overrides({place: {key: "das"}}, [f"{place}.{key}.n=4"])
        assert named[place][key] == {"name": "das", "n": 4}
    for text in ("'x #'", '"####"', "x#", "'it''s #'", "['a # b']"):
        assert after(f"a.n={text}")["a"]["n"] == yaml.safe_load(text)
    assert after("a.words=[\tx,\ty]")["a"]["words"] == ["x", "y"], "a tab is a gap"
    unnamed = merging.merge({"trainer": {"max_steps": 3}}, {"trainer": {"name": "dry"}})
    assert unnamed == {"trainer": {"name": "dry"}}, "a name for the usual part is another name"
    for wrong, said in {
        "~a.m": "Did you mean 'a.n'",
        "~b.c": "'b.c'",
        "a.words[7]=z": "a.words\\[7\\]='z' is not allowed",
        "a.n[0]=z": "a.n\\[0\\]",
        "a.words": "give KEY=VALUE",
        "~": "give KEY=VALUE",
        "~a.n=2": "a.n is 1. Give ~a.n",
        "~strategy=grpo": "strategy is {'name': 'dapo'",
        "a.n=one #two": "a comment in YAML, which would be lost",
        "a.n=####": "'a.n=\"...\"'",
        "a.n='one' #two": "a comment in YAML",
        "a.words=[x, y] # z": "a comment in YAML",
    }.items():
        with pytest.raises(ConfigError, match=said):
            after(wrong)


@dataclass
class Trainer:
    """A structured config, as a user of Hydra has them."""

    name: str = "dry"
    max_steps: int = 2


@dataclass
class Mine:
    """An experiment."""

    trainer: Trainer = field(default_factory=Trainer)
    prompts: int = 2
    folder: str = "runs"


def test_python_gives_what_it_has(tmp_path: Path) -> None:
    path = file(tmp_path, prompts="${evaluation.prompts}")
    loaded = configs.load(path, overrides=["evaluation.prompts=8"])
    assert OmegaConf.is_config(loaded) and loaded.prompts == 8
    assert configs.given(loaded, where="t")["prompts"] == "${evaluation.prompts}"
    assert configs.given(Mine(), where="t")["trainer"] == {"name": "dry", "max_steps": 2}
    with pytest.raises(ConfigError, match="give a mapping"):
        configs.given(3, where="t")
    for source in (loaded, Mine()):
        given = merging.merge(opened.read(source, where="t"), opened.based({"study": "mine"}))
        found = configs.experiment(given, where="t")
        assert (found.study, found.trainer["name"]) == ("mine", "dry")
    printed = gfcr("config", path, "evaluation.prompts=8", "--raw").stdout
    assert yaml.safe_load(printed)["prompts"] == "${evaluation.prompts}"


OVERRIDES = [
    ("prompts=${prompts}", "prompts='\\${prompts}' .* Recursive"),
    ("prompts=${nothing}", "not found"),
    ("+prompts=${study}", "prompts='t' is not allowed: give an integer"),
    ("strategy=${nothing}", "strategy.name='\\${nothing}'"),
    ("strategy={name: '${engine.name}'}", "fake"),
    ("strategy.group_size=${oc.env:GFCR_NO_SUCH}", "GFCR_NO_SUCH"),
    ("study=${oc.env:HF_TOKEN}", "HF_TOKEN is a secret"),
    ("study=${now:%Y}", "no resolver 'now'"),
    ("evaluation.sampling=${nothing}", "evaluation.sampling='\\${nothing}'"),
    ("compares=['${engine.nme}']", "compares\\[0\\]=.*Did you mean 'engine.name'"),
    ("compares[0]=${study}", "there is no list"),
    ("~nothing", "unknown key 'nothing'"),
    ("~engine.nme", "Did you mean 'engine.name'"),
    ("sampling.max_tokens=${.max_tokens}", "Recursive"),
    ("sampling.max_tokens=${", "sampling.max_tokens='\\${'"),
]


@over("case", OVERRIDES, ids=lambda case: case[0])
def test_an_override_that_cannot_be_had_is_refused_too(
    case: tuple[str, str], tmp_path: Path
) -> None:
    override, said = case
    done = gfcr("run", file(tmp_path), override, "--json")
    assert done.returncode == 2, done.stdout
    told = " ".join(json.loads(done.stdout)["error"].split())
    assert re.search(said, told), told
    assert not (tmp_path / "runs").exists()
