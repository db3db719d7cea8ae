from functools import partial
from typing import Any

import pytest

from gfcr.errors import TaskError
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.rows import LazyPrompts, Row, check_characters, content_key, fraction, read
from tests.cases import over

CODEC = CharCodec(alphabet="abc? ")


ASKED = {"role": "user", "content": "b"}


class Table(dict[str, list[Any]]):
    """Columns, in the shape of a loaded dataset."""

    @property
    def column_names(self) -> list[str]:
        return list(self)


def rows(table: Table, *, prompt: str = "q", answer: str = "a") -> list[Row]:
    def check(text: str) -> str | None:
        return None if text else "it is empty"

    return read(table, prompt_column=prompt, answer_column=answer, check=check, where="here")


def test_repeated_prompts_are_read_once_and_numbers_become_text() -> None:
    found = rows(Table(q=["a", "b", "a"], a=[1, 2.5, 3]))
    assert [(r.prompt, r.answer) for r in found] == [("a", "1"), ("b", "2.5")]


@over(
    ("table", "said"),
    [
        (Table(q=["a"], answers=["1"]), r"no column 'a' \(dataset.answer_column\)"),
        (Table(query=["a"], a=["1"]), r"Columns: query, a"),
        (Table(q=[], a=[]), "no rows"),
        (Table(q=["a", "b"], a=["1", ""]), "row 1: the answer '' cannot be verified, it is empty"),
        (Table(q=["a", "b"], a=["1", None]), "row 1: column 'a' holds NoneType"),
        (Table(q=[["a"]], a=["1"]), r"row 0: column 'q' holds \['a'\]: give a text"),
        (Table(q=[[]], a=["1"]), r"row 0: column 'q' holds \[\]"),
        (Table(q=[[ASKED, {"role": "assistant", "content": "b"}]], a=["1"]), "of 'assistant': end"),
        (Table(q=[{"a": 1}], a=["1"]), "row 0: column 'q' holds dict"),
    ],
)
def test_what_cannot_be_used_is_named(table: Table, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        rows(table)


def test_a_conversation_s_last_turn_is_what_is_asked() -> None:
    before = {"role": "system", "content": "a"}
    found = rows(Table(q=[[before, ASKED], [ASKED], "b", [before, ASKED]], a=["1"] * 4))
    assert [(r.prompt, len(r.before)) for r in found] == [("b", 1), ("b", 0)]
    assert found[0].key != found[1].key == content_key("b")
    with pytest.raises(TaskError, match="conversations, which need a model"):
        Dataset(path="t.csv")._prompt(found[0], codec=CODEC, table=None, meta={})


def test_prompts_are_tokenised_when_looked_at() -> None:
    found = rows(Table(q=["a", "z", "b"], a=["1", "2", "3"]))
    task = Dataset(path="t.csv", template="{prompt}?")
    lazy = LazyPrompts(rows=found, make=partial(task._prompt, codec=CODEC, table=None, meta={}))
    assert len(lazy) == 3
    assert lazy[0].tokens == CODEC.encode("a?")
    assert [p.text for p in lazy[::2]] == ["a?", "b?"]
    with pytest.raises(TaskError, match="'z'"):
        lazy[1]
    with pytest.raises(TaskError, match="'z'"):
        check_characters(found, codec=CODEC, template="{prompt}?")


def test_the_fraction_is_uniform() -> None:
    drawn = [fraction(content_key(str(i))) for i in range(5000)]
    assert sum(f < 0.1 for f in drawn) / 5000 == pytest.approx(0.1, abs=0.02)
