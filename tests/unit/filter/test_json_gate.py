"""JSON gates: answers of a schema, and schemas that would check nothing."""

from typing import Any

import pytest

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.filter.json_gate import JsonGate
from gfcr.testing import factories as make
from tests.cases import over


def _passes(text: str, **values: Any) -> bool:
    return JsonGate(**values).passes(make.rollout(text=text), view=make.view())


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


@over(
    ("schema", "right", "wrong"),
    [
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "1", "3"),
        ({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}, "[1]", '["1"]'),
        ({"format": "date"}, '"2026-02-28"', '"2026-02-30"'),
        ({"enum": (1, 2)}, "1.0", "true"),
        ({"items": {"$ref": "#"}, "type": "array"}, "[[]]", "[" * 600 + "]" * 600),
    ],
)
def test_all_of_json_schema_is_read(schema: dict[str, Any], right: str, wrong: str) -> None:
    assert [_passes(text, schema=schema) for text in (right, wrong)] == [True, False]


def test_the_last_fenced_block_may_be_what_counts() -> None:
    text = 'First\n```json\n{"answer": "x"}\n```\nno:\n```json\n{"answer": 3}\n```\n'
    assert _passes(text, schema=ANSWER, where="fence")
    assert not _passes('{"answer": 3}', schema=ANSWER, where="fence")
    assert not _passes(text, schema=ANSWER)


@over(
    ("schema", "told"),
    [
        ({"typ": "object"}, r"json_gate\.schema: unknown keyword 'typ'.*'type'"),
        ({"properties": {"a": {"oneOff": []}}}, r"schema: unknown keyword 'oneOff'.*'oneOf'"),
        ({"items": {"minLength": -1}}, r"schema\.items\.minLength is not what.*-1 is less"),
        ({"anyOf": [{}, {"type": "text"}]}, r"schema\.anyOf\[1\].*is not what.*'text'"),
        ({"pattern": "("}, r"schema\.pattern is not what"),
        ({"required": "answer"}, r"schema\.required is not what"),
        ({"additionalProperties": 3}, r"schema\.additionalProperties is not what"),
        ({"items": {"$ref": "#/$defs/no"}}, r"schema: \$ref='#/\$defs/no' is not in the schema"),
        ({"$ref": "http://localhost:1/x"}, "is not in the schema"),
        ({"$dynamicRef": "http://localhost:1/x"}, r"\$dynamicRef=.* is not in the schema"),
        ({"format": "telephone"}, "format='telephone' cannot be checked here.*date"),
        ({"const": {1, 2}}, "schema is not what"),
        ({"maximum": float("nan")}, "schema=.*finite numbers"),
    ],
)
def test_a_schema_that_would_not_be_read_is_refused(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        JsonGate(schema=schema)


def test_a_schema_comes_from_a_file_and_back() -> None:
    gate = registry.build("filter", {"name": "json_gate", "schema": ANSWER})
    assert registry.spec("filter", gate)["schema"] == ANSWER
