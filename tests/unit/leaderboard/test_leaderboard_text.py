"""A name is shown as it is, and never read as markup or as a formula."""

import csv
import io
from dataclasses import replace

from rich.console import Console

from gfcr import leaderboard
from gfcr.shown.text import csv_cell, markdown
from tests.cases import over
from tests.studies import arm

ODD = ("=1+1", "@1", "+1", "-1+1", "\t=1", "<b>", "a|b", "[x](y)", "a\n# b", "[bold red]a")


def board_of(name):
    odd = [replace(r, study=f"s{name}") for r in arm(name, accuracy=0.6)]
    base = [replace(r, study=f"s{name}") for r in arm("grpo", accuracy=0.5)]
    failed = [replace(odd[0], seed=9, status="failed", result={"error": name})]
    return leaderboard.rank([*base, *odd, *failed], baseline="grpo")


@over("name", ODD)
def test_a_spreadsheet_reads_texts_and_numbers(name):
    rows = csv.DictReader(io.StringIO(leaderboard.to_csv(board_of(name)), newline=""))
    assert {row["arm"] for row in rows} == {"grpo", csv_cell(name)}
    assert csv_cell(-0.5) == "-0.5" and csv_cell("grpo") == "grpo"


def test_a_negative_difference_is_a_number():
    board = leaderboard.rank([*arm("a", accuracy=0.6), *arm("b", accuracy=0.5)], baseline="a")
    (row,) = (r for r in csv.DictReader(io.StringIO(leaderboard.to_csv(board))) if r["arm"] == "b")
    assert float(row["delta"]) < -0.05 and row["delta"].startswith("-0.")


@over("name", ODD)
def test_markdown_shows_names_and_lets_none_act(name):
    text = leaderboard.to_markdown(board_of(name))
    assert "<" not in text and "](" not in text.replace("\\](", "")
    lines = text.split("\n")
    bars = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
    assert len(bars) == 1, "a name ends no cell"
    assert not any(line.startswith("#") for line in lines)
    assert markdown("dr_grpo + stop") == "dr_grpo + stop"


def test_a_terminal_shows_brackets_as_they_are():
    board = replace(board_of("[bold red]a"), notes=("[red]note[/red]",))
    console = Console(record=True, width=300, force_terminal=False, file=io.StringIO())
    console.print(leaderboard.to_rich(board))
    shown = console.export_text()
    assert "[bold red]a" in shown and "[red]note[/red]" in shown
