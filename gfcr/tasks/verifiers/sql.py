"""A query run on a SQLite database, compared with the reference query's rows."""

import math
import re
import sqlite3
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, final

from annotated_types import Interval

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier, answers_of, best
from gfcr.types import Prompt
from gfcr.values.fenced import last_block
from gfcr.values.ranges import Count, Word

_ORDERED: Final = re.compile(r"\border\s+by\b", re.IGNORECASE)
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_REFUSED: Final = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_MOST_BYTES: Final = 10_000_000
"""Most bytes of one value."""


@final
@dataclass(frozen=True, kw_only=True)
class Sql(Verifier):
    """1 if the completion's query gives the rows of the answer's query, on the row's database.

    The query is the last fenced block, or the whole text. The database column holds the SQL that
    builds it (CREATE, INSERT); both queries run on one made anew in memory, where nothing but
    reading is authorised, within half of `seconds` each. Rows are compared in order where the
    answer's outermost SELECT has ORDER BY, else as a multiset; column names do not count, numbers
    of two types are equal, floats within 1e-9 relative.

    A query that fails, writes or takes too long is worth 0; an answer that does is unscorable.

    Hurts where the database is small: a wrong query may give the right rows by chance.
    """

    paper: ClassVar[str] = "2305.03111"
    origin: ClassVar[str] = "ours"
    slow = True
    columns = True

    database_column: Word = "database"
    seconds: Annotated[float, Interval(gt=0, le=3600)] = 4.0
    """Seconds for both queries, answer and completion, together; less than `dataset.timeout_s`."""
    most_rows: Count = 100_000
    """Most rows of a query; one that gives more is wrong."""

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares on an empty database: of queries that read no table."""
        return self._compare(text, answer=answer, database="")

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Compares on the prompt's database."""
        database = prompt.meta.get(self.database_column)
        if not isinstance(database, str):
            return Verdict(reward=None, error=f"column '{self.database_column}' holds no SQL")
        answers = answers_of(prompt)
        return best([self._compare(text, answer=a, database=database) for a in answers])

    def lacks(self, columns: Collection[str]) -> str | None:
        """Returns the database column if it is missing, or None."""
        name = self.database_column
        return None if name in columns else f"sql.database_column is '{name}'"

    def _compare(self, text: str, *, answer: str, database: str) -> Verdict:
        try:
            wanted = self._rows(answer, database=database)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return Verdict(reward=None, error=f"the answer's query cannot be run: {error}")
        try:
            given = self._rows(last_block(text).strip(), database=database)
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError):
            return Verdict(reward=0.0, scores={"executes": 0.0})
        same = _equal(given, wanted, ordered=is_ordered(answer))
        return Verdict(reward=float(same), scores={"executes": 1.0})

    def _rows(self, query: str, *, database: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(":memory:")) as made:
            made.executescript(database)
            made.commit()
            with suppress(sqlite3.Error):  # its first use declares a table, and is refused later
                made.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").fetchall()
            made.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            made.set_authorizer(_authorize)
            over = time.monotonic() + self.seconds / 2
            made.set_progress_handler(lambda: time.monotonic() > over, 1000)
            asked = made.execute(query)
            found = asked.fetchmany(self.most_rows + 1)
        if asked.description is None:
            raise ValueError("it is no query")
        if len(found) > self.most_rows:
            raise ValueError(f"more than {self.most_rows} rows")
        return found


def is_ordered(query: str) -> bool:
    """Returns whether ORDER BY stands outside of brackets, strings and comments."""
    plain = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL)
    while (inner := re.sub(r"\([^()]*\)", " ", plain)) != plain:
        plain = inner
    return bool(_ORDERED.search(plain))


def _authorize(action: int, name: str | None, function: str | None, *_: object) -> int:
    # Of a function its name is the second argument.
    refused = action not in _ALLOWED or (function or "").lower() in _REFUSED
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def _equal(given: Sequence[Any], wanted: Sequence[Any], *, ordered: bool) -> bool:
    if len(given) != len(wanted):
        return False
    if not ordered:
        # Rows that differ in a float's last digits are neighbours.
        given, wanted = (sorted(r, key=lambda row: [*map(_kind, row)]) for r in (given, wanted))
    pairs = zip(given, wanted, strict=True)
    return all(len(one) == len(other) and all(map(_alike, one, other)) for one, other in pairs)


def _kind(value: Any) -> tuple[str, Any]:
    if not isinstance(value, int | float):
        return ("", 0) if value is None else (type(value).__name__, value)
    return "number", value if float(value).is_integer() else float(f"{value:.9g}")


def _alike(one: Any, other: Any) -> bool:
    kinds: set[Any] = {type(one), type(other)}
    if float in kinds and kinds <= {int, float}:
        return math.isclose(one, other, rel_tol=1e-9)
    return len(kinds) == 1 and one == other
