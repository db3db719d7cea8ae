"""Writes docs/results/claims.md from the committed entries, and the table of regimes' cards.

python scripts/claims.py
"""

import json
import sys
from itertools import dropwhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.claims import claim, entry, plot, regime  # noqa: E402
from benchmarks.claims.claim import Claim, Untestable  # noqa: E402
from benchmarks.claims.display import effect, measured, replication, scored  # noqa: E402
from benchmarks.claims.verdict import FDR  # noqa: E402
from gfcr import strategy as strategies  # noqa: E402
from gfcr.shown.table import Column, Table  # noqa: E402

PAGE = ROOT / "docs" / "results" / "claims.md"
REGIMES = ROOT / regime.FOLDER / "README.md"
MARK = "<!-- scripts/claims.py wrote this table from the cards -->\n"
HEAD = """<!-- scripts/claims.py wrote this from the entries beside it and the files of claims -->

# Claims, tested

What papers claim of their strategies, and what was seen of it here, with a model of a million
parameters on sums: [Claims](../claims.md) says how, and what the verdicts mean. Effects are above 0
in the claimed direction, with their 95 % interval; costs are shares of the baseline's that are
saved. A difference is real where q < {fdr}: a false discovery rate of 5 % over all entries of this
page, and over both parts of claims that save something: that it is saved, and that the held-out
score is kept. The score is that before training, the strategy's after it, and the baseline's, with
the difference of the last two.
"""
PICTURE = """![Effects over their minimum, with 95 % intervals, by verdict](claims.svg)

Grey is what would not matter: effects below the claim's minimum. Intervals are cut where the
picture ends. To the right: held-out scores over the run, of the strategy in colour and of its
baseline in black.
"""
AGAIN = """## Made again

Three seeds more, which had no say in the verdict, and what their estimates say by themselves. Of
replications of claims that have a verdict {same} of {num} agree; of those called *seen*, {kept} of
{seen}.
"""
OLD = """## To be made again

Figures of runs whose score was not recorded beside what they saved: no verdict is drawn from them.
"""


def page() -> str:
    """The whole page of results."""
    every = entry.read_all(ROOT / entry.FOLDER)
    old = [each for each in every if entry.half_measured(each)]
    made = [each for each in every if each not in old]
    told = {name: claim.read(name) for name in strategies.names()}
    known = {each["strategy"] for each in every}
    tested = Table(rows=_tested(made), columns=_TESTED).markdown() if made else "None yet.\n"
    left = [c for c in told.values() if isinstance(c, Claim) and c.strategy not in known]
    never = [c for c in told.values() if isinstance(c, Untestable)]
    parts = [HEAD.format(fdr=FDR), *([PICTURE] if made else []), tested]
    if again := [each for each in made if each.get("replication")]:
        parts += [
            _agreement(again, among=made),
            Table(rows=_again(again, made), columns=_AGAIN).markdown(),
        ]
    if old:
        parts += [OLD, Table(rows=_tested(old), columns=_OLD).markdown()]
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
                "score": scored(each),
                "seeds": len(each["measured"]["seeds"]),
                "q": max(judged.q_value, judged.score_q or 0.0),
                "verdict": judged.verdict,
            }
        )
    return rows


def _again(again: list[dict[str, Any]], made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    said = {each.strategy: each.verdict for each in entry.judged(made)}
    return [
        {
            "strategy": each["strategy"],
            "verdict": said[each["strategy"]],
            "replication": replication(each, claim=entry.claim_of(each)),
        }
        for each in again
    ]


def _agreement(again: list[dict[str, Any]], *, among: list[dict[str, Any]]) -> str:
    pairs = [
        (j.verdict, entry.replicated(e)) for e, j in zip(among, entry.judged(among), strict=True)
    ]
    told = [(first, then) for first, then in pairs if then and first != "inconclusive"]
    seen = [then == "seen" for first, then in told if first == "seen"]
    same = sum(entry.agree(*pair) for pair in told)
    return AGAIN.format(num=len(told), same=same, seen=len(seen), kept=sum(seen))


def _columns(*names: str) -> list[Column[dict[str, Any]]]:
    return [Column(n, lambda row, n=n: row[n], words=True) for n in names]


_TESTED: list[Column[dict[str, Any]]] = [
    *_columns("strategy", "claim", "published", "minimum", "measured", "score"),
    Column("seeds", lambda row: row["seeds"]),
    Column("q", lambda row: row["q"], ".3f"),
    *_columns("verdict"),
]
_OLD = [column for column in _TESTED if column.head not in ("score", "q", "verdict")]
_AGAIN = _columns("strategy", "verdict", "replication")
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
    if made := [e for e in entry.read_all(ROOT / entry.FOLDER) if not entry.half_measured(e)]:
        plot.draw(made, path=PAGE.with_suffix(".svg"))
    REGIMES.write_text(regimes(REGIMES.read_text()))
