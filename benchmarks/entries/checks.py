"""Checks that must pass before a leaderboard may be committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gfcr.code import sources
from gfcr.leaderboard.board import Leaderboard
from gfcr.leaderboard.certificates import NOTES
from gfcr.leaderboard.measure import differs
from gfcr.leaderboard.rows import Row
from gfcr.tracking.names import CODE, SEVERAL, decode_name

Check: TypeAlias = Literal["finished", "seeds", "ranked", "margin", "certificates", "provenance"]
CHECKS: tuple[Check, ...] = get_args(Check)
MIN_SEEDS = 5
STOPPED = "the run was stopped early"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason why a leaderboard cannot be committed."""

    check: Check
    text: str


def problems_of(board: Leaderboard) -> list[Problem]:
    """Returns all reasons why a leaderboard cannot be committed as an entry."""
    found: list[Problem] = []

    def add(check: Check, *texts: str) -> None:
        found.extend(Problem(check=check, text=text) for text in texts)

    add("finished", *(f"{s.arm}, seed {s.seed} has not been run" for s in board.missing))
    for out in board.excluded:
        if not out.reason.startswith(STOPPED):
            add("finished", f"{out.arm}, seed {out.seed}: {out.reason}")
    if board.baseline is None or len(board.rows) < 2:
        add("ranked", "there is no second arm, or no baseline, to compare")
    if board.margin > board.own_margin:
        what = f"{board.margin:g} was chosen after the runs, the study's own is"
        add("margin", f"{what} {board.own_margin:g}: a larger one is no finding of equivalence")
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
    add("provenance", *_other_code(board.rows))
    return found


def _other_code(rows: Sequence[Row]) -> list[str]:
    """Lists the common code that differs between arms; a part of one arm only is its own."""
    told: list[str] = []
    for name in sorted({n for row in rows for n in row.provenance if f"gfcr.{n}".startswith(CODE)}):
        held = {row.provenance[name] for row in rows if name in row.provenance}
        what = decode_name(name.removeprefix("code").removeprefix(".")) or "gfcr"
        if len(held) > 1:
            told.append(f"arms were run with different code of {what}: {', '.join(sorted(held))}")
        if sources.UNKNOWN in held:
            told.append(f"the code of {what} is in no file: an edit between runs is not noticed")
    return told


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
        f"{row.arm}: {differs(name)}" for name, value in row.provenance.items() if SEVERAL in value
    ]
