"""The time-to-target benchmark as JSON and as words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from gfcr.bench.time_to_target import STOCK, Measured, Ratio, ratio, typical
from gfcr.sweep.study import Study

GOAL, ENOUGH = 0.25, 5


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
        "reached_goal": best is not None and best["seconds_ratio"]["value"] <= GOAL,
    }


def text(found: dict[str, Any]) -> str:
    """Returns the table as words."""
    head = (
        f"held-out reward {found['target']:g}, {len(found['seeds'])} seeds; seconds from the "
        f"first update, evaluations left out; ratios to {STOCK} with 95 % intervals"
    )
    lines = [head, _line({"arm": STOCK, **found["stock"]}), *map(_line, found["arms"])]
    if found["best"] is None:
        lines.append("no arm came to the target under every seed")
    else:
        best = next(row for row in found["arms"] if row["arm"] == found["best"])
        value = best["seconds_ratio"]["value"]
        lines.append(f"best: {found['best']}, {value:.2f} of the time (goal {found['goal']:g})")
    if not found["enough"]:
        lines.append(f"{len(found['seeds'])} seeds: {ENOUGH} or more are needed for a claim")
    return "\n".join(lines)


def _ratio(found: Ratio) -> dict[str, Any]:
    unknown: dict[str, float | None] = {"value": None, "low": None, "high": None}
    limits = asdict(found.interval) if found.interval is not None else unknown
    if found.interval is not None and not isfinite(found.interval.high):
        limits |= {"low": None, "high": None}
    return {**limits, "upper_bound": found.bound, "by_seed": dict(found.by_seed)}


def _limits(ratio: Mapping[str, Any]) -> str:
    return "" if ratio["low"] is None else f" ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _line(row: dict[str, Any]) -> str:
    if row["seconds"] is None:
        costs = "never there"
    else:
        costs = f"{row['seconds']:.1f} s, {row['tokens']:,.0f} tokens, {row['updates']:g} updates"
    compared = "; ".join(
        f"{name} {row[key]['value']:.2f}{_limits(row[key])}"
        + (" or less" if row[key]["upper_bound"] else "")
        for name, key in (("seconds x", "seconds_ratio"), ("tokens x", "tokens_ratio"))
        if key in row and row[key]["value"] is not None
    )
    there = f"{row['reached']} of {row['runs']} there"
    words = [f"{row['arm']}: {costs}", there, compared, *map(str, row["failed"].values())]
    return "; ".join(word for word in words if word)
