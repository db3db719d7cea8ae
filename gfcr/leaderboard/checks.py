"""What must hold before a leaderboard may be committed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

from gfcr.leaderboard.certificates import NOTES
from gfcr.leaderboard.rows import Leaderboard, Row
from gfcr.plain import is_mapping
from gfcr.tracking.records import RunRecord

Check: TypeAlias = Literal["finished", "seeds", "ranked", "certificates", "provenance", "code"]
CHECKS: tuple[Check, ...] = get_args(Check)
MIN_SEEDS = 5
STOPPED = "the run was stopped early"
_ADDRESS: Final = re.compile(r"(?:[^:]+\.py|[A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*")
"""Of code: `path/to/file.py:Name` or `package.module:Name`."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason not to."""

    check: Check
    text: str


def problems_of(board: Leaderboard) -> list[Problem]:
    """Returns all that is wrong with a leaderboard as an entry."""
    found: list[Problem] = []

    def add(check: Check, *texts: str) -> None:
        found.extend(Problem(check=check, text=text) for text in texts)

    add("finished", *(f"{s.arm}, seed {s.seed} has not been run" for s in board.missing))
    for out in board.excluded:
        if not out.reason.startswith(STOPPED):
            add("finished", f"{out.arm}, seed {out.seed}: {out.reason}")
    if board.baseline is None or len(board.rows) < 2:
        add("ranked", "there is no second arm, or no baseline, to compare")
    for row in board.rows:
        if row.unranked and len(row.seeds) > 1:
            add("ranked", f"{row.arm}: {row.unranked}")
        if row.certificate not in ("none", "lossless"):
            add("certificates", f"{row.arm}: {NOTES[row.certificate]}")
        add("provenance", *_unclean(row))
    add("seeds", *_few_seeds(board.rows))
    commits = {row.provenance.get("commit", "unknown") for row in board.rows}
    if len(commits) > 1:
        add("provenance", f"arms were run at different commits: {', '.join(sorted(commits))}")
    return found


def code_of(runs: Iterable[RunRecord]) -> list[Problem]:
    """Names the code that resolving the specs of a store's runs would load, gfcr's own left out."""
    found = {(run.arm, name) for run in runs for name in _code(run.spec)}
    return [
        Problem(
            check="code",
            text=f"{arm}: its spec names {name}, code of this machine that would be loaded to see "
            "that it can be run again: read it first",
        )
        for arm, name in sorted(found)
    ]


def _code(value: object) -> Iterator[str]:
    """Every `package.module:Class` and `path/to/file.py:Class`, under whichever key it stands."""
    if isinstance(value, str) and _ADDRESS.fullmatch(value) and not value.startswith("gfcr."):
        yield value
    inner: Iterable[object] = value.values() if is_mapping(value) else ()
    if isinstance(value, list | tuple):
        inner = cast(Sequence[object], value)
    for each in inner:
        yield from _code(each)


def _few_seeds(rows: Sequence[Row]) -> list[str]:
    few = [
        f"{row.arm} has {len(row.seeds)} seeds, at least {MIN_SEEDS} are asked for"
        for row in rows
        if len(row.seeds) < MIN_SEEDS
    ]
    alike = len({row.seeds for row in rows}) <= 1
    return few if alike or few else ["the arms were run with different seeds"]


def _unclean(row: Row) -> list[str]:
    commit = row.provenance.get("commit", "unknown")
    if commit == "unknown":
        return [f"{row.arm}: the commit is unknown"]
    if "+" in commit:
        return [f"{row.arm}: run from a checkout with local changes ({commit})"]
    return [
        f"{row.arm}: seeds differ in {name}"
        for name, value in row.provenance.items()
        if " | " in value
    ]
