"""Queries against a reference: rows, their order, and what a query may not do."""

import time
from dataclasses import replace
from pathlib import Path

from gfcr.tasks.verifiers.base import ANSWERS
from gfcr.tasks.verifiers.sql import Sql, is_ordered
from gfcr.types import Prompt
from tests.cases import over

DATABASE = """
CREATE TABLE people (name TEXT, age INTEGER, pay REAL);
INSERT INTO people VALUES ('Ann', 30, 1.5), ('Bob', 25, 2.5), ('Cy', 35, NULL), ('Bob', 25, 2.5);
"""
ALL = "SELECT name FROM people"
OLD = "SELECT name, age FROM people ORDER BY age DESC"


def ask(query: str, answer: str, *, database: object = DATABASE, **options: float) -> float | None:
    meta = {"database": database}
    prompt = Prompt(id="p", tokens=(), text="", answer=answer, meta=meta)
    return Sql(**options).judge(prompt, text=query).reward  # pyright: ignore[reportArgumentType]


@over(
    ("query", "answer", "reward"),
    [
        (ALL, ALL, 1),
        ("```sql\nSELECT name FROM people ORDER BY 1 DESC;\n```", ALL, 1),
        ("SELECT DISTINCT name FROM people", ALL, 0),
        ("SELECT name AS n FROM people", ALL, 1),
        (OLD, OLD, 1),
        ("SELECT name, age FROM people ORDER BY age", OLD, 0),
        ("SELECT age, name FROM people ORDER BY age DESC", OLD, 0),
        ("SELECT 2.0 * 3", "SELECT 6", 1),
        ("SELECT 0.1 + 0.2", "SELECT 0.3", 1),
        ("SELECT '6'", "SELECT 6", 0),
        ("SELECT 1700000000500", "SELECT 1700000000000", 0),
        ("VALUES (10000000002), (10000000001)", "VALUES (10000000001), (10000000002)", 1),
        ("VALUES (10000000002), (10000000001.0)", "VALUES (10000000001), (10000000002)", 1),
        ("SELECT pay FROM people", "SELECT pay FROM people ORDER BY name", 0),
        ("SELECT nothing FROM people", ALL, 0),
        ("I do not know", ALL, 0),
        ("", ALL, 0),
        ("SELECT NULL", "SELECT NULL", 1),
        ("SELECT value FROM json_each('[1, 2]')", "VALUES (1), (2)", 1),
        ("SELECT value FROM json_tree('[1, 2]') WHERE atom", "VALUES (1), (2)", 1),
        ("SELECT name FROM pragma_table_info('people')", "VALUES ('name'), ('age'), ('pay')", 0),
    ],
)
def test_rows_are_compared(query: str, answer: str, reward: float) -> None:
    assert ask(query, answer) == reward


@over(
    "query",
    [
        "DELETE FROM people",
        "DROP TABLE people",
        "INSERT INTO people VALUES ('Eve', 1, 1)",
        "ATTACH DATABASE 'FILE' AS other",
        "PRAGMA writable_schema = 1",
        "CREATE TABLE more (x)",
        "VACUUM INTO 'FILE'",
        "SELECT load_extension('FILE')",
        f"{ALL}; DROP TABLE people",
        "EXPLAIN QUERY PLAN DELETE FROM people",
    ],
)
def test_only_reading_is_authorised(query: str, tmp_path: Path) -> None:
    file = tmp_path / "made.db"
    assert ask(query.replace("FILE", str(file)), ALL) == 0
    assert not file.exists()


def test_a_query_without_end_is_worth_0_in_time_and_a_flood_too() -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
    began = time.monotonic()
    assert ask(endless.format("count(*)"), ALL, seconds=0.4) == 0
    assert ask(endless.format("i"), ALL, seconds=4.0, most_rows=100) == 0
    assert ask("SELECT length(zeroblob(1 << 40))", ALL) == 0
    assert time.monotonic() - began < 5


@over("query", ["", "-- no idea", ";", "```sql\n```"])
def test_no_query_is_none_that_finds_nothing(query: str) -> None:
    assert ask(f"{ALL} WHERE 0", f"{ALL} WHERE 0") == 1
    assert ask(query, f"{ALL} WHERE 0") == 0 and ask(ALL, query or ";") is None


@over("database", ["CREATE nonsense", None, 7])
def test_a_database_or_an_answer_that_is_none_is_unscorable(database: object) -> None:
    assert ask(ALL, ALL, database=database) is None
    assert ask(ALL, "SELECT * FROM missing") is None
    assert ask(ALL, "DELETE FROM people") is None


def test_the_order_counts_where_the_outermost_query_has_one() -> None:
    assert is_ordered("select a from t Order  By a")
    assert not is_ordered("select a from (select a from t order by a)")
    assert not is_ordered("select 'order by' from t -- order by")
    assert is_ordered("select f(g(a)) from (select 1) order by (a)")


def test_the_column_must_be_there() -> None:
    assert Sql().lacks(["prompt"]) == "sql.database_column is 'database'"
    assert Sql(database_column="db").lacks(["db"]) is None and Sql().columns


def test_of_several_right_queries_any_will_do() -> None:
    prompt = Prompt(id="p", tokens=(), text="", answer=OLD, meta={"database": DATABASE})
    several = replace(prompt, meta={**prompt.meta, ANSWERS: (OLD, ALL)})
    assert Sql().judge(prompt, text=ALL).reward == 0
    assert [Sql().judge(several, text=query).reward for query in (OLD, ALL, "SELECT 1")] == [
        1,
        1,
        0,
    ]
