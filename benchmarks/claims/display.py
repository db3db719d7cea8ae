"""Shows claims as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite
from statistics import fmean
from typing import Any

from benchmarks.claims import entry as entries
from benchmarks.claims.claim import Claim, Untestable
from benchmarks.claims.measures import HOW
from benchmarks.claims.planned import Power
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
            if any(row.get(name) for row in rows)
        ],
        caption=f"{seeds} seeds, paired; effects above 0 are in the claimed direction. Real is "
        "what has q < 0.05: a false discovery rate of 5 % over the claims of this table.",
    )


_COLUMNS = (
    *("strategy", "regime", "measure", "published", "minimum", "detectable", "runs left"),
    *("measured", "score", "verdict", "again"),
)


def _row(line: Line) -> dict[str, Any]:
    claim, power = line.claim, line.power
    return {
        "strategy": claim.strategy,
        "regime": claim.regime,
        "measure": claim.measure.replace("_", " "),
        "published": f"{claim.published.size} [{claim.published.source}]",
        "minimum": effect(power.minimum, claim=claim).lstrip("+"),
        "detectable": effect(power.detectable, claim=claim).lstrip("+")
        + f" ({power.source})"
        + (f"; score kept: {power.kept_by} seeds" if power.kept_by else ""),
        "runs left": str(power.left),
        "measured": "" if line.entry is None else measured(line.entry, claim=claim),
        "score": "" if line.entry is None else scored(line.entry),
        "verdict": "" if line.judged is None else line.judged.verdict,
        "again": "" if line.entry is None else replication(line.entry, claim=claim),
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


def scored(entry: dict[str, Any]) -> str:
    """Writes the held-out score before and after training, and the baseline's beside it."""
    found = entry["measured"]
    score = found.get("score") or {"before": (), **found}
    before, ours, theirs = (_mean(score[key]) for key in ("before", "arm", "baseline"))
    text = f"{before}{' to ' * bool(before)}{ours}, not {theirs}"
    if not (gap := score.get("difference")):
        return text
    low, high = ("?" if gap[end] is None else f"{gap[end]:+.3f}" for end in ("low", "high"))
    return f"{text}: {gap['value']:+.3f} [{low}, {high}]"


def _mean(scores: Sequence[float | None]) -> str:
    known = [score for score in scores if score is not None]
    return f"{fmean(known):.2f}" if known else ""


def replication(entry: dict[str, Any], *, claim: Claim) -> str:
    """Writes what the replication measured, and what its estimates say by themselves."""
    if not (found := entry.get("replication")):
        return ""
    said, value = entries.replicated(entry), found["comparison"]["difference"]["value"]
    gap = found["score"]["difference"]["value"]
    return f"{effect(value, claim=claim)}, score {gap:+.3f}: {said}"
