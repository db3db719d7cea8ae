"""JSON gates: what is read of JSON Schema, against the reference implementation."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.filter.json_gate import JsonGate
from gfcr.testing import factories as make
from tests.cases import over

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([1.0, 1.5, -2.0, "", "a", "ab", "7"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "boolean", "null", "number", "integer"])
SIZES = st.integers(0, 3)


def _schemas(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    words: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "items": inner,
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), SIZES),
        "pattern": st.sampled_from(["^a", "b$", r"\d"]),
        "minimum": st.integers(-2, 2) | st.just(1.5),
        "maximum": st.integers(-2, 2) | st.just(1.5),
        "title": st.just("x"),
    }
    some = st.lists(st.sampled_from(sorted(words)), max_size=3, unique=True)
    return some.flatmap(lambda chosen: st.fixed_dictionaries({w: words[w] for w in chosen}))


SCHEMAS = st.recursive(st.just({}), _schemas, max_leaves=5)


def _passes(text: str, **values: Any) -> bool:
    return JsonGate(**values).passes(make.rollout(text=text), view=make.view())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(SCHEMAS, VALUES)
def test_a_schema_means_what_the_reference_says(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert _passes(json.dumps(value), schema=schema) == expected


ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "why": {"type": "string", "minLength": 3}},
    "required": ["answer"],
    "additionalProperties": False,
}


@over(
    ("text", "passes"),
    [
        ('{"answer": 3}', True),
        (' {"answer": 3.0, "why": "sum"}\n', True),
        ('{"answer": "3"}', False),
        ('{"answer": true}', False),
        ('{"answer": 3, "why": "so"}', False),
        ('{"answer": 3, "x": 1}', False),
        ("{}", False),
        ('The answer: {"answer": 3}', False),
        ('{"answer": NaN}', False),
        ('{"answer": -Infinity}', False),
        ('{"answer": 1e999}', False),
        ("", False),
        ("[" * 100000, False),
    ],
)
def test_an_answer_of_a_schema(text: str, passes: bool) -> None:
    assert _passes(text, schema=ANSWER) == passes


def test_the_last_fenced_block_may_be_what_counts() -> None:
    text = 'First\n```json\n{"answer": "x"}\n```\nno:\n```json\n{"answer": 3}\n```\n'
    assert _passes(text, schema=ANSWER, where="fence")
    assert not _passes('{"answer": 3}', schema=ANSWER, where="fence")
    assert not _passes(text, schema=ANSWER)


@over(
    ("schema", "told"),
    [
        ({"typ": "object"}, r"json_gate\.schema: unknown keyword 'typ'.*'type'"),
        ({"properties": {"a": {"oneOf": []}}}, r"schema\.properties\.a: unknown keyword 'oneOf'"),
        ({"items": {"minLength": -1}}, r"schema\.items\.minLength=-1 is not what"),
        ({"anyOf": [{}, {"type": "text"}]}, r"schema\.anyOf\[1\]\.type='text' is not what"),
        ({"pattern": "("}, r"schema\.pattern='\(' is not what"),
        ({"items": True}, r"schema\.items=True is no schema: give a mapping"),
        ({"required": "answer"}, r"schema\.required='answer' is not what"),
        ({"minimum": "1"}, r"schema\.minimum='1' is not what"),
        ({"properties": []}, r"schema\.properties=\[\] is not what"),
        ({"additionalProperties": 3}, r"schema\.additionalProperties=3 is no schema"),
    ],
)
def test_a_schema_that_would_not_be_read_is_refused(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        JsonGate(schema=schema)


def test_a_schema_comes_from_a_file_and_back() -> None:
    gate = registry.build("filter", {"name": "json_gate", "schema": ANSWER})
    assert registry.spec("filter", gate)["schema"] == ANSWER
