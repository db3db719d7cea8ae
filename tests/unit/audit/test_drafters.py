"""Which drafters an audit is about, by name, file, strategy or experiment."""

from dataclasses import replace
from pathlib import Path

import pytest

from gfcr import registry
from gfcr.audit import plan
from gfcr.audit.drafters import ELSEWHERE, Subject, named
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.pool import Pool
from gfcr.errors import ConfigError
from gfcr.speculation.base import Target
from gfcr.speculation.das import Das
from gfcr.speculation.ngram import Ngram
from gfcr.stages import Harvest
from gfcr.testing import factories


def test_all_is_every_drafter_of_the_registry_that_runs_here() -> None:
    found = named("all")
    assert found[0].spec is None
    names = {s.name for s in found} - {"none"}
    assert names | set(ELSEWHERE) | {"suffix"} == {*registry.names("drafter"), "suffix"}
    assert {"draft_model", "draft_model_greedy"} <= {s.label for s in found}
    greedy = next(s for s in found if s.label == "draft_model_greedy")
    assert greedy.lacks_model and not greedy.build().sampled  # type: ignore[union-attr]


def test_a_file_gives_values(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("{name: ngram, draft_length: 2}")
    (subject,) = named(str(file))
    assert subject.label == "short" and subject.build() == Ngram(draft_length=2)
    (other := tmp_path / "else" / "short.yaml").parent.mkdir()
    other.write_text("{name: ngram}")
    with pytest.raises(ConfigError, match=r"two drafters are called short\. Give one of the files"):
        named(f"{file},{other}")
    assert named(f"{file},{file}") == [subject]
    file.write_text("{name: ngram, length: 2}")
    with pytest.raises(ConfigError, match=r"length"):
        named(str(file))
    with pytest.raises(ConfigError, match="no such file"):
        named("missing.yaml")


def test_an_audit_leaves_the_memory_of_runs_alone(tmp_path: Path) -> None:
    spec = {"name": "auto", "drafter": {"name": "das", "history": str(tmp_path / "of the runs")}}
    drafter = Subject(label="das", spec=spec).fetched(model="")
    assert drafter is not None
    drafter.check(Target(folder=None, vocab=20, max_length=256))
    assert isinstance(drafter.core, Das)
    drafter.core.observe(Harvest(step=0, groups=(), aborted=()), view=factories.view())
    assert not [*tmp_path.iterdir()]


def test_an_unknown_drafter_is_named() -> None:
    with pytest.raises(ConfigError, match=r"sufix.*suffix"):
        named("sufix")


def test_an_experiment_is_audited_as_it_would_run(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "strategy: {name: grpo, drafter: {name: ngram, draft_length: 2}}\n"
        "engine: {name: vllm, max_running: 7}\n"
        "sampling: {temperature: 0.8, max_tokens: 9}\n"
        "model: demo-tail\n"
    )
    asked = plan.of_experiment(file)
    (subject,) = asked.drafters
    assert subject.build() == Ngram(draft_length=2)
    assert asked.model == "demo-tail" and asked.engine["max_running"] == 7
    assert [s.law for s in asked.settings] == [{**SETTINGS["t1"].law, "temperature": 0.8}]
    file.write_text("engine: {name: fake}")
    with pytest.raises(ConfigError, match=r"engine\.name=fake cannot be audited.*vllm_server"):
        plan.of_experiment(file)
    over = plan.of_experiment(file, overrides=["engine=pool", "engine.size=3"])
    assert registry.build("engine", over.engine) == Pool(size=3)


def test_engine_settings_are_given_as_a_run_takes_them() -> None:
    asked = plan.of_drafters("ngram", changes={"name": "vllm_server", "dtype": "bfloat16"})
    assert asked.engine == {"name": "vllm_server", "dtype": "bfloat16"}
    for changes, told in (({"dtyp": "bfloat16"}, "dtype"), ({"name": "fake"}, "cannot be audited")):
        with pytest.raises(ConfigError, match=told):
            plan.of_strategy("grpo", changes=changes)


def test_a_server_is_audited_with_the_drafters_that_it_runs() -> None:
    served = {"name": "vllm_server"}
    labels = [s.label for s in plan.of_drafters(" all,ngram", changes=served).drafters]
    assert len(labels) == len({*labels})
    names = {s.name for s in plan.of_drafters(" all,ngram", changes=served).drafters}
    assert {"none", "ngram", "draft_model"} <= names
    assert not names & {"das", "spec_rl", "auto"}
    with pytest.raises(ConfigError, match=r"drafter=das works between two steps"):
        plan.of_drafters("das", changes=served)
    with pytest.raises(ConfigError, match=r"drafter=das works between two steps"):
        plan.of_strategy("das", changes=served)


OWN = """
from gfcr import strategy as strategies
from gfcr.strategy import Strategy

def mine() -> Strategy:
    return strategies.load("das")
"""


def test_a_strategy_is_audited_under_its_name_with_its_drafter_or_without(tmp_path: Path) -> None:
    (subject,) = plan.of_strategy("grpo").drafters
    assert subject == Subject(label="none", spec=None)
    (file := tmp_path / "own.py").write_text(OWN)
    (subject,) = plan.of_strategy(f"{file}:mine").drafters
    assert (subject.label, subject.name) == ("mine", "das"), "a certificate is a file of that name"


def test_a_head_that_must_be_trained_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--drafter eagle3: .*give a file with its `model`"):
        plan.of_drafters("eagle3")
    file = tmp_path / "head.yaml"
    file.write_text("{name: eagle3, model: somewhere}")
    (subject,) = plan.of_drafters(str(file)).drafters
    assert not subject.lacks_model


def test_completions_that_the_engine_cannot_hold_are_said_to_be_shorter() -> None:
    asked = plan.of_drafters("none")
    assert asked.shortened is None and replace(asked, max_tokens=488).shortened is None
    assert "488 tokens at most, not 489" in str(replace(asked, max_tokens=489).shortened)
    longer = plan.of_drafters("none", changes={"max_length": 256})
    assert "engine.max_length=256" in str(longer.shortened)
