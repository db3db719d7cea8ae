import json
import tracemalloc
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from gfcr.errors import TaskError
from gfcr.tasks.base import LazyPrompts
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.rows import Row, check_characters, content_key, fraction
from gfcr.tasks.table import Columns, Read, read
from tests.cases import over

CODEC = CharCodec(alphabet="abc? ")


ASKED = {"role": "user", "content": "b"}


class Table(dict[str, list[Any]]):
    """Columns, in the shape of a loaded dataset."""

    @property
    def column_names(self) -> list[str]:
        return list(self)

    @property
    def features(self) -> dict[str, Any]:
        return dict.fromkeys(self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return {name: values[key] for name, values in self.items()}


class Column(list[Any]):
    """A column that is read through: in a file, looking rows up one by one takes minutes."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError(f"row {key} was looked up")


def read_all(table: Table, *, prompt: str = "q", answer: str = "a", whole: bool = False) -> Read:
    def check(text: str) -> str | None:
        return None if text else "it is empty"

    columns = Columns(prompt=prompt, answer=answer, tools="tools", all=whole)
    return read(table, columns=columns, check=check, where="here")


def rows(table: Table, *, prompt: str = "q", answer: str = "a") -> list[Row]:
    return read_all(table, prompt=prompt, answer=answer).rows


def test_rows_that_repeat_one_are_left_out_and_counted_and_numbers_become_text() -> None:
    found = read_all(Table(q=Column("abaa"), a=Column([1, 2.5, 1, "1"])))
    assert [(r.prompt, r.answers) for r in found.rows] == [("a", ("1",)), ("b", ("2.5",))]
    assert found.about == "4 rows, 2 prompts; 2 repeat one and are left out"
    # Through most chat templates and tokenizers these are the same tokens.
    spelt = rows(Table(q=["\xe4?", "a\u0308?", " \xe4?\n", "\xe4?\n"], a=["1", "1", "1", "2"]))
    assert [(r.prompt, r.answers) for r in spelt] == [("\xe4?", ("1",)), ("\xe4?\n", ("2",))]
    assert len({r.asked for r in spelt}) == 1, "on one side of the split"
    system, user = {"role": "system", "content": "a"}, {"role": "user", "content": " b\n"}
    assert len(rows(Table(q=[[system, ASKED], [system, user]], a=["1", "1"]))) == 1
    begun = {"role": "assistant", "content": "b"}
    for last in (user, begun):
        told = [[{**user, "content": c}, last] for c in ("\xe4", "a\u0308", " \xe4\n")]
        assert len(rows(Table(q=told, a=["1"] * 3))) == 1, "earlier turns, too"
    told = [[ASKED, begun], [ASKED, {**begun, "content": "b "}]]
    assert len(rows(Table(q=told, a=["1", "1"]))) == 2, "an answer goes on behind its white space"


def test_one_prompt_with_two_answers_is_two_rows_of_one_side() -> None:
    found = read_all(Table(q=["a", "a", "b"], a=["1", "2", "3"]))
    said = "1 ask one again, with another answer or column: kept apart"
    assert f"3 rows, 2 prompts; {said}" in found.about
    first, second, third = found.rows
    assert first.asked == second.asked == first.key != second.key and third.asked != first.asked
    # Other columns make other rows only where somebody reads them.
    table = Table(q=["a", "a"], a=["1", "1"], puzzle=[[0], [1]])
    assert [len(read_all(table, whole=whole).rows) for whole in (False, True)] == [1, 2]
    # And columns of tests, which are megabytes, are read and not held.
    heavy = Table(q=["a"] * 300, a=[*map(str, range(300))], tests=["x" * 10_000] * 300)
    tracemalloc.start()
    assert len(read_all(heavy, whole=True).rows) == 300
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10**6


def test_a_column_of_tools_that_is_named_must_be_there() -> None:
    def columns(path: str) -> Columns:
        return Dataset(
            path="t.csv", prompt_column="q", answer_column="a", tools_column=path
        ).columns

    none = rows(Table(q=["a", "b", "c", "ab"], a=["1"] * 4, tools=[None, "", "null", "[]"]))
    assert [row.tools for row in none] == [()] * 4
    table = Table(q=["a"], a=["1"])
    for path in ("tools", ""):
        assert read(table, columns=columns(path), check=lambda _: None, where="here").total == 1
    with pytest.raises(TaskError, match=r"no column 'toolz' \(dataset.tools_column\)"):
        read(table, columns=columns("toolz"), check=lambda _: None, where="here")


def test_columns_may_be_nested_and_answers_several() -> None:
    table = Table(q=["a", "b"], r=[{"style": {"truth": "1"}}, {"style": {"truth": ["2", 3]}}])
    found = rows(table, answer="r.style.truth")
    assert [r.answers for r in found] == [("1",), ("2", "3")]
    written = Table(q=["a", "b"], r=['{"style": {"truth": 1}}', "{'style'"])
    with pytest.raises(TaskError, match=r"row 1: column 'r.style.truth' holds NoneType"):
        rows(written, answer="r.style.truth")
    assert rows(Table(q=["a"], r=written["r"][:1]), answer="r.style.truth")[0].answers == ("1",)
    with pytest.raises(TaskError, match=r"row 0: column 'r' holds several fields \(style\)"):
        rows(table, answer="r")
    with pytest.raises(TaskError, match=r"row 0: column 'r.truth' holds NoneType"):
        rows(table, answer="r.truth")


@over(
    ("table", "said"),
    [
        (Table(q=["a"], answers=["1"]), r"no column 'a' \(dataset.answer_column\)"),
        (Table(query=["a"], a=["1"]), r"Columns: query, a"),
        (Table(q=[], a=[]), "no rows"),
        (Table(q=["a", "b"], a=["1", ""]), "row 1: the answer '' cannot be verified, it is empty"),
        (Table(q=["a"], a=[["1", ""]]), "row 0: the answer '' cannot be verified, it is empty"),
        (Table(q=["a", "b"], a=["1", None]), "row 1: column 'a' holds NoneType"),
        (Table(q=[["a"]], a=["1"]), r"row 0: column 'q' holds \['a'\]: give a text"),
        (Table(q=[[]], a=["1"]), r"row 0: column 'q' holds \[\]"),
        (Table(q=["a", " \n"], a=["1", "1"]), "row 1: column 'q' is blank"),
        (Table(q=[[ASKED]], a=["1"], tools=["web"]), "row 0: column 'tools' holds 'web'"),
        (Table(q=["a"], a=[datetime(2024, 1, 2)]), "holds the date 2024-01-02.*JSON.*convert"),
        (Table(q=[{"a": 1}], a=["1"]), r"row 0: column 'q' holds several fields \(a\)"),
    ],
)
def test_what_cannot_be_used_is_named(table: Table, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        rows(table)


def test_a_conversation_s_last_turn_is_what_is_asked() -> None:
    before = {"role": "system", "content": "a"}
    found = rows(Table(q=[[before, ASKED], [ASKED], "c", [before, ASKED]], a=["1"] * 4))
    assert [(r.prompt, len(r.turns)) for r in found] == [("b", 2), ("b", 1), ("c", 0)]
    assert found[0].key != found[1].key == content_key("b")
    with pytest.raises(TaskError, match="conversations, which need a model"):
        Dataset(path="t.csv")._prompt(found[0], codec=CODEC, table=None, meta={})


def test_what_is_made_of_rows_is_said() -> None:
    begun = [ASKED, {"role": "assistant", "content": "so"}]
    spelt = [json.dumps([ASKED]), repr(begun), '[{"from": "human", "value": "c"}]', "[1]"]
    found = read_all(Table(q=[*spelt, begun], a=[1, 2, 3, 4, 2]))
    assert [(r.prompt, len(r.turns)) for r in found.rows] == [
        ("b", 1),
        ("b", 2),
        ("c", 1),
        ("[1]", 0),
    ]
    assert "3 are conversations written as text, read as conversations" in found.about
    assert "1 end with the assistant's words, which the policy continues" in found.about
    large = read_all(Table(q=["a", "b", "c"], a=[2.0**53, 1.5, 2**60]))
    assert "WARNING: 1 answers are whole numbers beyond 2**53" in large.about
    assert "WARNING" not in found.about


def test_prompts_are_tokenised_when_looked_at() -> None:
    found = rows(Table(q=["a", "z", "b"], a=["1", "2", "3"]))
    task = Dataset(path="t.csv", template="{prompt}?")
    lazy = LazyPrompts(rows=found, make=partial(task._prompt, codec=CODEC, table=None, meta={}))
    assert len(lazy) == 3
    longer = [replace(found[0], tools=({"name": "x" * 90},)), replace(found[0], prompt="b" * 90)]
    assert found[0].characters < 90 < min(row.characters for row in longer)
    assert lazy[0].tokens == CODEC.encode("a?")
    assert [p.text for p in lazy[::2]] == ["a?", "b?"]
    with pytest.raises(TaskError, match="'z'"):
        lazy[1]
    with pytest.raises(TaskError, match="'z'"):
        check_characters(found, codec=CODEC, template="{prompt}?")


def test_the_fraction_is_uniform() -> None:
    drawn = [fraction(content_key(str(i))) for i in range(5000)]
    assert sum(f < 0.1 for f in drawn) / 5000 == pytest.approx(0.1, abs=0.02)
