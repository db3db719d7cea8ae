"""Shows claims as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from gfcr.claims import entry as entries
from gfcr.claims.claim import Claim, Untestable
from gfcr.claims.measures import HOW
from gfcr.claims.planned import Power
from gfcr.shown.table import Column, Table


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the table: a claim, its power, its entry and its verdict."""

    claim: Claim
    power: Power
    entry: dict[str, Any] | None
    judged: entries.Judged | None


def effect(value: float, *, claim: Claim) -> str:
    """Writes an effect for people: a difference of scores, or the share of the cost saved."""
    if not isfinite(value):
        return "unknown"
    return f"{1 - exp(-value):+.0%}" if HOW[claim.measure].of == "cost" else f"{value:+.3f}"


def table(
    lines: Sequence[Line], *, untestable: Sequence[Untestable], seeds: int
) -> Table[dict[str, Any]]:
    """Returns the table of claims, with their power and their measured effects."""
    rows = [_row(line) for line in lines]
    rows += [
        {"strategy": each.strategy, "verdict": "not testable here", "published": each.untestable}
        for each in untestable
    ]
    return Table(
        rows=rows,
        columns=[
            Column(name, lambda row, name=name: row.get(name), words=name != "measured", wraps=True)
            for name in _COLUMNS
        ],
        caption=f"{seeds} seeds, paired; effects above 0 are in the claimed direction. Real is "
        "what has q < 0.05: a false discovery rate of 5 % over the claims of this table.",
    )


_COLUMNS = (
    *("strategy", "regime", "measure", "published", "minimum", "detectable", "runs left"),
    *("measured", "verdict"),
)


def _row(line: Line) -> dict[str, Any]:
    claim, power = line.claim, line.power
    return {
        "strategy": claim.strategy,
        "regime": claim.regime,
        "measure": claim.measure.replace("_", " "),
        "published": f"{claim.published.size} [{claim.published.source}]",
        "minimum": effect(power.minimum, claim=claim).lstrip("+"),
        "detectable": effect(power.detectable, claim=claim).lstrip("+") + f" ({power.source})",
        "runs left": str(power.left),
        "measured": "" if line.entry is None else measured(line.entry, claim=claim),
        "verdict": "" if line.judged is None else line.judged.verdict,
    }


def measured(entry: dict[str, Any], *, claim: Claim) -> str:
    """Writes a measured effect with its 95 % interval."""
    found = entry["measured"]
    limits = found["comparison"]["difference"]
    sign = ">= " if found["at_least"] else "<= " if found["at_most"] else ""
    low, high = (
        "?" if limits[end] is None else effect(limits[end], claim=claim) for end in ("low", "high")
    )
    return f"{sign}{effect(limits['value'], claim=claim)} [{low}, {high}]"
