"""Reading of a table's rows as prompts with their answers, each question once."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import repeat
from typing import Any, cast, final
from unicodedata import normalize

import numpy as np

from gfcr.errors import TaskError, did_you_mean
from gfcr.tasks import turns
from gfcr.tasks.rows import Row, content_key


@final
@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a table holds what: names of columns, or dotted paths into nested ones."""

    prompt: str
    answer: str
    """Empty where no answer is needed."""
    tools: str = ""
    """Empty where no tools are offered."""
    tools_key: str = ""
    """The key that names the column of tools, which must then be there; empty where it need not."""
    all: bool = False
    """Whether all columns are read, so that rows that differ in any of them differ."""


@final
@dataclass(frozen=True, kw_only=True)
class Read:
    """The rows of a table, and what was made of them."""

    rows: list[Row]
    total: int
    """Number of rows of the table."""
    apart: int
    """Rows kept that ask what an earlier one asks, with another answer or column."""
    written: int = 0
    """Prompts that are conversations written as text."""
    cut: int = 0
    """Answers whose last digits the file may have lost."""

    @property
    def about(self) -> str:
        """Says how many rows there were and what became of them."""
        told = f"{self.total:,} rows, {len(self.rows) - self.apart:,} prompts"
        if self.apart:
            told += f"; {self.apart:,} ask one again, with another answer or column: kept apart"
        if repeats := self.total - len(self.rows):
            told += f"; {repeats:,} repeat one and are left out"
        if self.written:
            told += f"; {self.written:,} are conversations written as text, read as conversations"
        if begun := sum(bool(r.turns) and r.turns[-1]["role"] == "assistant" for r in self.rows):
            told += f"; {begun:,} end with the assistant's words, which the policy continues"
        if self.cut:
            told += (
                f". WARNING: {self.cut:,} answers are whole numbers beyond 2**53 that the file "
                "gives as floats, so that their last digits may be lost: write them as texts"
            )
        return told


def read(table: Any, *, columns: Columns, check: Callable[[str], str | None], where: str) -> Read:
    """Reads the rows of a table.

    Args:
        table: a loaded data set.
        columns: where it holds what.
        check: returns what is wrong with an answer, or None.
        where: file and split, for messages.

    Raises:
        TaskError: a column is missing, there are no rows, a prompt is blank or no conversation, or
            an answer is of no use; names the row.
    """
    prompts = _column(table, columns.prompt, key="prompt_column", where=where)
    answers = _column(table, columns.answer, key="answer_column", where=where)
    tools = _column(table, columns.tools, key=columns.tools_key, where=where)
    given = zip(prompts, answers or repeat(""), tools or repeat(None), strict=False)
    found, askings = dict[str, Row](), set[str]()
    for number, (prompt, answer, offered) in enumerate(given):
        place = f"{where}, row {number}"
        row = _row(prompt, number, answer=answer, offered=offered, columns=columns, place=place)
        for each in row.answers:
            if problem := check(each):
                raise TaskError(
                    f"{place}: the answer {each!r} cannot be verified, {problem}. "
                    "Remove the row, or give another dataset.verifier or answer_column."
                )
        said = [*row.answers, *([table[number]] if columns.all else [])]
        # The key alone is kept: a row may hold megabytes of tests.
        same = content_key(json.dumps([row.asked, said], sort_keys=True, default=str))
        if same not in found:
            again = row.asked in askings
            askings.add(row.asked)
            found[same] = replace(row, key=same) if again else row
    if not found:
        raise TaskError(f"{where}: it has no rows.")
    return Read(
        rows=[*found.values()],
        total=len(prompts),
        apart=len(found) - len(askings),
        written=sum(isinstance(p, str) and turns.written(p) is not None for p in prompts),
        cut=sum(isinstance(a, float) and a.is_integer() and abs(a) >= 2**53 for a in answers),
    )


def _row(
    prompt: Any, number: int, *, answer: Any, offered: Any, columns: Columns, place: str
) -> Row:
    asks = f"{place}: column '{columns.prompt}'"
    prompt = (isinstance(prompt, str) and turns.written(prompt)) or prompt
    told = turns.conversation(prompt, where=asks) if isinstance(prompt, list) else ()
    text = turns.asked(told) if told else _text(prompt, where=asks)
    if not text.strip():
        raise TaskError(f"{asks} is blank: remove the row, or name another prompt_column.")
    tools = turns.tools(offered, where=f"{place}: column '{columns.tools}'")
    if tools and not told:
        told = ({"role": "user", "content": text},)
    key = content_key(_spelled(told, tools, text=text))
    return Row(key, key, text, _answers(answer, columns, place), number, told, tools)


def _spelled(told: Sequence[turns.Turn], tools: Sequence[Any], *, text: str) -> str:
    """Returns what a prompt's id depends on: the text of one that is a single turn of the user.

    Chat templates trim it, and tokenizers compose accents: what differs by that alone is the same.
    """
    text = _bare(text)
    if not tools and (not told or (len(told) == 1 and told[0]["role"] == "user")):
        return text
    before = [{**t, "content": _bare(t["content"])} if t.get("content") else t for t in told[:-1]]
    return json.dumps([*before, text if told[-1]["role"] == "user" else told[-1], *tools])


def _bare(text: str) -> str:
    return normalize("NFC", text).strip()


def _column(table: Any, path: str, *, key: str, where: str) -> Sequence[Any]:
    """Returns a column, or what lies at a dotted path in each of its values; empty for none."""
    names: Sequence[str] = table.column_names
    first, _, rest = path.partition(".")
    if path in names:
        return _values(table, path)
    if rest and first in names:
        return [_within(value, rest) for value in table[first]]
    if path and key:
        near = did_you_mean(path, names)
        raise TaskError(
            f"{where}: there is no column '{path}' (dataset.{key}).{near} "
            f"Columns: {', '.join(names)}."
            + (" Give answer_column='' where no answer is needed." * (key == "answer_column"))
        )
    return ()


def _values(table: Any, name: str) -> list[Any]:
    """Returns a column's values; 0.1 in 32 bits is 0.1, not the nearest number of 64 bits."""
    kinds = {"float16": np.float16, "float32": np.float32}
    kind = kinds.get(getattr(table.features[name], "dtype", ""))
    # The column as a whole: one by one, each value would be looked up in the file.
    return [float(str(kind(v))) if kind and v is not None else v for v in table[name]]


def _within(value: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(value, str):  # fields that differ by row are often kept as JSON
            with suppress(ValueError):
                value = json.loads(value)
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value


def _answers(given: Any, columns: Columns, place: str) -> tuple[str, ...]:
    where = f"{place}: column '{columns.answer}'"
    if not isinstance(given, list) or not given:
        return (_text(given, where=where),)
    return tuple(_text(each, where=where) for each in cast("list[Any]", given))


def _text(value: Any, *, where: str) -> str:
    if isinstance(value, dict):
        names = ", ".join(map(str, cast("dict[str, Any]", value)))
        raise TaskError(
            f"{where} holds several fields ({names}): give the path of one, as COLUMN.FIELD."
        )
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # tables hold 7 as 7.0 beside 8.5, or beside none
    if isinstance(value, date):
        raise TaskError(
            f"{where} holds the date {value}: write it as a text. JSON's such as '2024-01-02' are "
            "read as dates: convert the file to .csv or .parquet, where they stay texts."
        )
    if not isinstance(value, str | int | float | Decimal) or value != value:
        raise TaskError(
            f"{where} holds {type(value).__name__}, not a text or a number: "
            "fill it, or name another column."
        )
    return str(value)
