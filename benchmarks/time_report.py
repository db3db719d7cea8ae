"""The time-to-target benchmark as JSON and as words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite, nan
from typing import Any, TypeAlias

from benchmarks.time_to_target import STOCK, Measured, Ratio, ratio, typical
from gfcr.shown.table import Column, Table
from gfcr.shown.text import span
from gfcr.stats import Interval
from gfcr.sweep.study import Study

GOAL, ENOUGH = 0.25, 5
Row: TypeAlias = Mapping[str, Any]


def data(measured: Sequence[Measured], *, study: Study, target: float) -> dict[str, Any]:
    """Returns every arm's costs and its ratios to stock TRL's, which come first in `measured`."""
    reference, *arms = measured
    rows: list[dict[str, Any]] = [
        {
            "arm": arm.arm,
            **typical(arm),
            "seconds_ratio": _ratio(ratio(arm, over=reference, of=lambda s: s.seconds)),
            "tokens_ratio": _ratio(ratio(arm, over=reference, of=lambda s: s.tokens)),
            "runs_by_seed": {seed: asdict(spent) for seed, spent in arm.spent.items()},
        }
        for arm in arms
    ]
    known = [row for row in rows if row["seconds_ratio"]["value"] is not None]
    best = min(known, key=lambda row: row["seconds_ratio"]["value"], default=None)
    return {
        "study": study.name,
        "target": target,
        "seeds": study.seeds,
        "enough": len(study.seeds) >= ENOUGH,
        "stock": {
            **typical(reference),
            "runs_by_seed": {seed: asdict(spent) for seed, spent in reference.spent.items()},
        },
        "arms": rows,
        "best": best and best["arm"],
        "goal": GOAL,
        "reached_goal": best is not None and len(study.seeds) >= ENOUGH and _surely(best),
    }


def text(found: dict[str, Any]) -> list[Any]:
    """Returns the table, and what it says."""
    head = (
        f"held-out reward {found['target']:g}, {len(found['seeds'])} seeds; seconds from the "
        f"first update, evaluations left out; ratios to {STOCK} with 95 % intervals"
    )
    rows: list[Row] = [{"arm": STOCK, **found["stock"]}, *found["arms"]]
    lines = [f"{row['arm']}: {why}" for row in rows for why in row["failed"].values()]
    if found["best"] is None:
        lines.append("no arm came to the target under every seed")
    else:
        best = next(row for row in found["arms"] if row["arm"] == found["best"])
        value = best["seconds_ratio"]["value"]
        lines.append(f"best: {found['best']}, {value:.2f} of the time (goal {found['goal']:g})")
    if not found["enough"]:
        lines.append(f"{len(found['seeds'])} seeds: {ENOUGH} or more are needed for a claim")
    return [head, Table(rows=rows, columns=_COLUMNS), *lines]


def _surely(best: Row) -> bool:
    """Tells whether the whole interval of an arm's ratio is at the goal."""
    most = best["seconds_ratio"]["high"]
    return most is not None and most <= GOAL


def _ratio(found: Ratio) -> dict[str, Any]:
    unknown: dict[str, float | None] = {"value": None, "low": None, "high": None}
    limits = asdict(found.interval) if found.interval is not None else unknown
    if found.interval is not None and not isfinite(found.interval.high):
        limits |= {"low": None, "high": None}
    return {**limits, "upper_bound": found.bound, "by_seed": dict(found.by_seed)}


def _times(row: Row, key: str) -> str:
    found = row.get(key)
    if not found or found["value"] is None:
        return ""
    low, high = (nan if found[end] is None else found[end] for end in ("low", "high"))
    told = span(Interval(value=found["value"], low=low, high=high), form=".2f")
    return told + (" or less" if found["upper_bound"] else "")


_COLUMNS: tuple[Column[Row], ...] = (
    Column("arm", lambda row: row["arm"], words=True, wraps=True),
    Column("there", lambda row: f"{row['reached']} of {row['runs']}"),
    Column("seconds", lambda row: row["seconds"], ".1f"),
    Column("tokens", lambda row: row["tokens"], ",.0f"),
    Column("updates", lambda row: row["updates"], "g"),
    Column("seconds x", lambda row: _times(row, "seconds_ratio")),
    Column("tokens x", lambda row: _times(row, "tokens_ratio")),
)
