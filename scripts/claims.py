"""Writes docs/results/claims.md from the committed entries, and the table of regimes' cards.

python scripts/claims.py
"""

import json
from itertools import dropwhile
from pathlib import Path
from typing import Any

from gfcr import strategy as strategies
from gfcr.claims import claim, entry, plot, regime
from gfcr.claims.claim import Claim, Untestable
from gfcr.claims.verdict import FDR
from gfcr.commands.claims_display import effect, measured
from gfcr.shown.table import Column, Table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "claims.md"
REGIMES = ROOT / regime.FOLDER / "README.md"
MARK = "<!-- scripts/claims.py wrote this table from the cards -->\n"
HEAD = """<!-- scripts/claims.py wrote this from the entries beside it and the files of claims -->

# Claims, tested

What papers claim of their strategies, and what was seen of it here, with a model of a million
parameters on sums: [Claims](../claims.md) says how, and what the verdicts mean. Effects are above 0
in the claimed direction, with their 95 % interval; costs are shares of the baseline's that are
saved. A difference is real where q < {fdr}: a false discovery rate of 5 % over all entries of this
page.
"""
PICTURE = """![Effects over their minimum, with 95 % intervals, by verdict](claims.svg)

Grey is what would not matter: effects below the claim's minimum. Intervals are cut where the
picture ends.
"""


def page() -> str:
    """The whole page of results."""
    made = entry.read_all(ROOT / entry.FOLDER)
    told = {name: claim.read(name) for name in strategies.names()}
    known = {each["strategy"] for each in made}
    tested = Table(rows=_tested(made), columns=_TESTED).markdown() if made else "None yet.\n"
    left = [c for c in told.values() if isinstance(c, Claim) and c.strategy not in known]
    never = [c for c in told.values() if isinstance(c, Untestable)]
    parts = [HEAD.format(fdr=FDR), *([PICTURE] if made else []), tested]
    if left:
        parts += ["## Not measured yet\n", Table(rows=left, columns=_LEFT).markdown()]
    if never:
        parts += ["## Not testable here\n", Table(rows=never, columns=_NEVER).markdown()]
    return "\n".join(parts)


def regimes(text: str) -> str:
    """The README of the regimes with its table of cards as they are now."""
    before, _, rest = text.partition(MARK)
    lines = dropwhile(lambda line: not line or line.startswith("|"), rest.splitlines())
    folder = ROOT / regime.FOLDER
    rows = [
        (name, regime.load(name, folder=folder), json.loads(path.read_text()))
        for name in regime.names(folder)
        if (path := folder / f"{name}.card.json").is_file()
    ]
    table = Table(rows=rows, columns=_CARDS).markdown()
    return f"{before}{MARK}\n{table}\n" + "\n".join(lines) + "\n"


def _tested(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each, judged in zip(made, entry.judged(made), strict=True):
        asked = entry.claim_of(each)
        rows.append(
            {
                "strategy": asked.strategy,
                "claim": f"{asked.measure.replace('_', ' ')} in {asked.regime}"
                + (f" against {asked.baseline}" if asked.baseline != "grpo" else "")
                + (", equal" if asked.direction == "equal" else ""),
                "published": f"{asked.published.size} [{asked.published.source}]",
                "minimum": effect(each["minimum"], claim=asked).lstrip("+"),
                "measured": measured(each, claim=asked),
                "seeds": len(each["measured"]["seeds"]),
                "q": judged.q_value,
                "verdict": judged.verdict,
            }
        )
    return rows


def _columns(*names: str) -> list[Column[dict[str, Any]]]:
    return [Column(n, lambda row, n=n: row[n], words=True) for n in names]


_TESTED: list[Column[dict[str, Any]]] = [
    *_columns("strategy", "claim", "published", "minimum", "measured"),
    Column("seeds", lambda row: row["seeds"]),
    Column("q", lambda row: row["q"], ".3f"),
    *_columns("verdict"),
]
_LEFT: list[Column[Claim]] = [
    Column("strategy", lambda c: c.strategy, words=True),
    Column("claim", lambda c: f"{c.measure.replace('_', ' ')} in {c.regime}", words=True),
    Column("published", lambda c: f"{c.published.size} [{c.published.source}]", words=True),
    Column("where", lambda c: c.published.where, words=True),
]
_NEVER: list[Column[Untestable]] = [
    Column("strategy", lambda c: c.strategy, words=True),
    Column("why", lambda c: c.untestable, words=True),
]


def _figure(name: str) -> Any:
    return lambda row: regime.figure(row[2], name)


_CARDS: list[Column[Any]] = [
    Column("regime", lambda row: row[0], words=True),
    Column("live", _figure("start.groups.live"), ".2f"),
    Column("all right", _figure("start.groups.all_right"), ".2f"),
    Column("all wrong", _figure("start.groups.all_wrong"), ".2f"),
    Column("success", _figure("start.success"), ".2f"),
    Column("never solved", _figure("start.prompts.never"), ".2f"),
    Column("p50", _figure("start.length.p50"), ".0f"),
    Column("p99", _figure("start.length.p99"), ".0f"),
    Column("p99/p50", _figure("start.length.tail"), ".1f"),
    Column("cut", _figure("start.length.cut"), ".0%"),
    Column("visits", _figure("visits.mean"), ".1f"),
    Column("false positives, negatives", lambda row: _noise(row[2]), words=True),
    Column("generation", _figure("generation_share"), ".0%"),
    Column(
        "score", lambda row: "{before:.2f} to {after:.2f}".format(**row[2]["score"]), words=True
    ),
    Column("target", lambda row: row[1].target),
]


def _noise(card: dict[str, Any]) -> str:
    given = [card["verifier"][key] for key in ("false_positive", "false_negative")]
    return "not recorded" if None in given else ", ".join(f"{rate:.2f}" for rate in given)


if __name__ == "__main__":
    PAGE.write_text(page())
    if made := entry.read_all(ROOT / entry.FOLDER):
        plot.draw(made, path=PAGE.with_suffix(".svg"))
    REGIMES.write_text(regimes(REGIMES.read_text()))
