"""`gfcr schema`: what editors are told is what files are checked by."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gfcr import config as configs
from gfcr import experiment, registry, sweep
from gfcr import strategy as strategies
from gfcr.commands.schema import of_files
from gfcr.errors import GfcrError
from gfcr.values import merging, reading
from tests.cases import over
from tests.commands import gfcr
from tests.contract.sources import EXPERIMENTS, ROOT
from tests.pages import all_blocks


@cache
def keeps(*, study: bool) -> Any:
    """What checks a file against the schema of studies, or of experiments."""
    return jsonschema.Draft202012Validator(of_files(study=study))


@pytest.mark.whole
def test_it_prints_a_sound_schema_of_each_as_the_page_says() -> None:
    """That is docs/run-an-experiment.md."""
    (block,) = (b for b in all_blocks("bash") if b.reason.endswith(Path(__file__).name))
    for words, study in zip(block.commands, (False, True), strict=True):
        *command, _, file = words
        assert file == f"{'study' if study else 'experiment'}.schema.json"
        printed = json.loads(gfcr(*command[1:]).stdout)
        assert printed == keeps(study=study).schema
        jsonschema.Draft202012Validator.check_schema(printed)


@pytest.mark.slow
@over("file", EXPERIMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_shipped_file_keeps_it(file: Path) -> None:
    study = any(key in merging.read(file) for key in configs.STUDY)
    keeps(study=study).validate(reading.read(file))
    with pytest.raises(jsonschema.ValidationError):
        keeps(study=study).validate({**reading.read(file), "promts": 3})


RIGHT: list[dict[str, Any]] = [
    {"strategy": "grpo", "model": "demo", "study": 2026},
    {"base": "other.yaml", "trainer": {"max_steps": 3}},
    {"strategy": {"name": "my.py:mine", "anything": 3}},
    {"strategy": {"name": "dapo", "max_rounds": 5, "filters": {"soft_overlong": None}}},
    {"strategy": {"name": "grpo", "controls": {"stop": {"name": "repetition_stop"}}}},
    {"strategy": {"name": "grpo", "drafter": "none", "loss": {"clip_high": 0.3}}},
    {"evaluation": {"generate": {"name": "multi_turn", "max_turns": 8}, "sampling": {"top_k": 1}}},
    {"budget": {"seconds": 3.5, "generated_tokens": None}},
]
WRONG: list[dict[str, Any]] = [
    {"strategy": "gpro"},
    {"strategy": 4},
    {"trainer": {"max_step": 3}},
    {"trainer": {"name": "trl", "mean_length": 3}},
    {"prompts": "many"},
    {"prompts": 0},
    {"sampling": {"temperature": -1}},
    {"sampling": {"top_p": 0}},
    {"evaluation": {"temperature": 0.5}},
    {"strategy": {"name": "dapo", "filters": {"advantage": {"kind": "best"}}}},
    {"strategy": {"name": "grpo", "max_rounds": 5}},
    {"strategy": {"name": "grpo", "loss": {"estimator": "ppo"}}},
    {"strategy": {"name": "das", "drafter": {"name": "sufix"}}},
    {"budget": {"seconds": "3"}},
    {"engine": {"name": "vllm", "dtype": "int3"}},
    {"arms": {"a": {"strategy": "grpo"}}},
]


@over("values", RIGHT, ids=json.dumps)
def test_what_is_right_keeps_it(values: dict[str, Any]) -> None:
    keeps(study=False).validate(values)
    keeps(study=True).validate({"arms": {"a": values, "b": None}, "seeds": [0, 1]})


@over("values", WRONG, ids=json.dumps)
def test_what_is_wrong_does_not_and_is_refused(values: dict[str, Any]) -> None:
    assert not keeps(study=False).is_valid(values)
    with pytest.raises(GfcrError):
        experiment.resolve(configs.experiment(merging.merge({}, values), where="it"))


STUDIES: list[dict[str, Any]] = [
    {"seeds": [0, 0]},
    {"seeds": 3},
    {"arms": {"a": {"strategy": "gpro"}}},
    {"factors": {"f": {"a": {"group_sizes": 4}, "b": {"group_size": 8}}}},
    {"design": "half", "factors": {"f": {"a": {"group_size": 4}, "b": {"group_size": 8}}}},
    {"launcher": {"name": "local", "parallels": 2}},
    {"stopping": {"name": "halvings"}},
]


@over("values", STUDIES, ids=json.dumps)
def test_a_wrong_study_does_not_and_is_refused(values: dict[str, Any]) -> None:
    whole = values if "factors" in values else {"arms": {"a": {"strategy": "grpo"}}, **values}
    assert not keeps(study=True).is_valid(whole)
    with pytest.raises(GfcrError):
        sweep.from_values(whole, where="it")


@over("kind", registry.KINDS)
def test_every_part_with_its_usual_values_keeps_it(kind: str) -> None:
    check = jsonschema.Draft202012Validator(
        {**keeps(study=True).schema, "properties": {}}
        | {"properties": {"it": {"$ref": f"#/$defs/{kind}"}}}
    )
    for name in registry.names(kind):
        check.validate({"it": name})
        keys = registry.fields_of(registry.find(kind, name))
        if not any(key["default"] == "required" for key in keys):
            spec = registry.spec(kind, registry.build(kind, name))
            check.validate({"it": json.loads(json.dumps(spec, default=str))})
        assert not check.is_valid({"it": {"name": name, "no_such_key": 1}})


def test_every_strategy_as_resolved_keeps_it() -> None:
    for name in strategies.names():
        knobs = {} if "group_size" in of_knobs(name) else {"group_size"}
        spec = strategies.load(name).spec()
        values = {key: value for key, value in spec.items() if key not in knobs}
        keeps(study=False).validate({"strategy": json.loads(json.dumps({**values, "name": name}))})


def of_knobs(name: str) -> set[str]:
    import inspect

    return set(inspect.signature(strategies.find(name)).parameters)
