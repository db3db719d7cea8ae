"""One table, as terminals, Markdown and CSV show it."""

import io
from functools import partial

from rich.console import Console
from rich.text import Text

from gfcr.shown.table import Column, Table, csv_of
from gfcr.shown.text import number, plain, span
from gfcr.stats import Interval
from tests.cases import over
from tests.contract.sources import LIBRARY, imports

ROWS = [("grpo", 0.5, 1200), ("a|b [x]", -0.25, 0)]


def around(value: float) -> Interval:
    return Interval(value=value, low=value - 0.1, high=value + 0.1)


COLUMNS: tuple[Column[tuple[str, float, int]], ...] = (
    Column("arm", lambda row: row[0], words=True),
    Column("score", lambda row: around(row[1]), partial(span, form="+.2f"), key=lambda row: row[1]),
    Column("tokens\nspent", lambda row: row[2] or None, ",.0f", spare=1),
    Column("never", lambda row: float("nan"), ".2f", spare=2),
)


def shown(*, width: int) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Table(rows=ROWS, columns=COLUMNS, title="[bold]t"))
    return console.export_text().split("\n")


def test_a_terminal_shows_intervals_below_numbers_and_markup_as_it_is() -> None:
    lines = "\n".join(shown(width=80))
    assert "[bold]t" in lines and "a|b [x]" in lines and "tokens" in lines and "1,200" in lines
    assert "+0.50 [" not in lines and "[+0.40, +0.60]" in lines
    assert "never" not in lines, "a spare column that says nothing"


@over("width", range(25, 43))
def test_a_narrow_terminal_leaves_spare_columns_out_and_cuts_nothing_off(width: int) -> None:
    lines = shown(width=width)
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    assert any("[+0.40, +0.60]" in line for line in lines)


@over("name", ["a name" * 5, "名前" * 8])
def test_a_figure_beside_words_is_whole_at_every_width(name: str) -> None:
    columns: tuple[Column[str], ...] = (
        Column("arm", lambda row: row, words=True),
        Column("verdict", lambda row: "inconclusive", words=True),
        Column("n", lambda row: 12345.5, ".1f"),
    )
    for width in range(21, 60):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(Table(rows=[name], columns=columns))
        text = console.export_text()
        assert "12345.5" in text and "inconclusive" in text, width


WIDE: tuple[Column[str], ...] = (
    Column("arm", lambda row: row, words=True),
    Column("what it does", lambda row: "words " * 6 + row, words=True, wraps=True),
    Column("score", lambda row: around(0.25), partial(span, form="+.4f")),
    Column("tokens", lambda row: 123_456_789, ",.0f"),
    Column("seconds", lambda row: 98_765.4321, ".4f"),
    Column("passes", lambda row: 87_654, ",.0f", spare=1),
    Column("verified", lambda row: 7_654_321, ",.0f", spare=2),
)
FIGURES = {
    "score": ("+0.2500", "[+0.1500, +0.3500]"),
    "tokens": ("123,456,789",),
    "seconds": ("98765.4321",),
    "passes": ("87,654",),
    "verified": ("7,654,321",),
}


@over("width", [24, 30, 40, 50, 60, 70, 80, 100, 120])
def test_no_figure_is_cut_at_any_width(width: int) -> None:
    rows = ["a_long_name_of_an_arm+and_its_level", "b"]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Table(rows=rows, columns=WIDE))
    text = console.export_text()
    assert "…" not in text and max(map(len, text.split("\n"))) <= width
    *_, told = ("", *" ".join(text.split()).split("No room for: ")[1:])
    for head, figures in FIGURES.items():
        there = [text.count(figure) >= len(rows) for figure in figures]
        assert all(there) != (head in told), (head, told)


def test_every_table_of_a_terminal_is_this_one() -> None:
    users = [path for path in LIBRARY if any(i.module == "rich.table" for i in imports(path))]
    assert users == ["gfcr/shown/table.py"]


def test_markdown_has_every_column_that_says_something() -> None:
    head, rule, first, second = Table(rows=ROWS, columns=COLUMNS).markdown().splitlines()
    assert head == "| arm | score | tokens spent |" and rule == "| --- | --- | --- |"
    assert first == "| grpo | +0.50 [+0.40, +0.60] | 1,200 |"
    assert second.startswith("| a\\|b \\[x\\] | -0.25 [")


def test_a_colour_is_only_for_terminals() -> None:
    column: Column[str] = Column("verdict", lambda row: Text(row, style="red"), words=True)
    assert "| biased |" in Table(rows=["biased"], columns=[column]).markdown()


def test_csv_keeps_numbers_and_leaves_what_is_unknown_empty() -> None:
    text = csv_of([{"a": -1.5, "b": float("nan")}, {"a": None, "c": "=1+1"}])
    assert text == "a,b,c\n-1.5,,\n,,=1+1\n"
    assert csv_of([]).strip() == ""


def test_what_is_not_finite_is_null_in_json_and_nothing_in_words() -> None:
    data = plain({1: (float("inf"), around(0.0)), "n": [float("nan"), 2, None]})
    assert data == {"1": [None, {"value": 0.0, "low": -0.1, "high": 0.1}], "n": [None, 2, None]}
    assert (number(float("nan")), number(None), number(1234.5)) == ("", "", "1,234")
    assert span(Interval(value=0.5, low=float("nan"), high=float("nan"))) == "0.500"


def test_a_page_is_given_texts_and_what_to_sort_by() -> None:
    data = Table(rows=ROWS, columns=COLUMNS).data()
    assert [head["name"] for head in data["heads"]] == ["arm", "score", "tokens spent"]
    assert data["rows"][1][1] == {"text": "-0.25 [-0.35, -0.15]", "key": -0.25}
    assert data["rows"][1][2] == {"text": "", "key": None}
