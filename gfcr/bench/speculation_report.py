"""The measured cells of `gfcr bench speculation`, as JSON, as a table, as a file for `auto`."""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gfcr.bench.rounds import TAIL, Part, Round
from gfcr.bench.speculation import Cell, Pair, Plan
from gfcr.errors import ConfigError
from gfcr.speculation.table import Speed, SpeedTable

SPEED_GOAL: Final = 2.0
PASSES_GOAL: Final = 3.0

Take = Callable[[Round], Part]


def data(cells: Sequence[Cell], *, plan: Plan, share: float | None) -> dict[str, Any]:
    """The JSON object.

    Args:
        cells: measured ones.
        plan: they were measured by.
        share: of generation in a training step without drafts (R_gen), where it is known.
    """
    return {
        "model": plan.model,
        "pairs": plan.pairs,
        "requests": plan.prompts * plan.group,
        "prompts": plan.prompts,
        "compile": plan.compile,
        "policies": list(plan.policies),
        "goal": {"speed": SPEED_GOAL, "passes": PASSES_GOAL},
        "plain": [_plain(c) for c in cells if c.plain],
        "cells": [row(c, share=share, plain=_plain_rate(cells, c)) for c in cells if c.pairs],
    }


def row(cell: Cell, *, share: float | None = None, plain: float | None = None) -> dict[str, Any]:
    """One cell as JSON."""
    rounds = [p.drafting for p in cell.pairs]
    drafts = sum(r.drafts for r in rounds)
    alpha = 1 + sum(r.accepted for r in rounds) / max(drafts, 1)
    paused = _median([p.paused.whole.rate for p in cell.pairs])
    speed = spread([_ratio(p, whole) for p in cell.pairs])
    assert cell.first
    found: dict[str, Any] = {
        "arm": cell.arm,
        "draft_length": cell.draft_length,
        "running": cell.running,
        "spec": cell.spec,
        "certificate": cell.certificate,
        "ratio": speed,
        "ratios": [_ratio(p, whole) for p in cell.pairs],
        "first_epoch_ratio": _ratio(cell.first, whole),
        "cpu_ratio": spread([_cheaper(p) for p in cell.pairs]),
        "passes_ratio": spread([_fewer(p, whole) for p in cell.pairs]),
        "tokens_per_s": {"drafting": _rate(rounds, whole), "paused": paused},
        "paused_to_plain": paused / plain if plain else None,
        "acceptance_length": alpha,
        "acceptance_by_position": _positions(rounds),
        "counts": {
            "forward_passes": sum(r.whole.passes for r in rounds),
            "emitted": sum(r.whole.tokens for r in rounds),
            "verified": sum(r.drafted + r.drafts for r in rounds),
            "drafted": sum(r.drafted for r in rounds),
            "accepted": sum(r.accepted for r in rounds),
        },
    }
    if cell.running > TAIL:
        found["tail"] = {
            "running": TAIL,
            "ratio": spread([_ratio(p, tail) for p in cell.pairs]),
            "passes_ratio": spread([_fewer(p, tail) for p in cell.pairs]),
            "seconds": {
                "drafting": _median([r.tail.seconds for r in rounds]),
                "paused": _median([p.paused.tail.seconds for p in cell.pairs]),
            },
        }
    if share is not None:
        found["step"] = {
            "generation_share": share,
            "bound": 1 / (share / alpha + 1 - share),
            "estimate": 1 / (share / speed["median"] + 1 - share),
        }
    return found


def line(found: dict[str, Any]) -> str:
    """One cell in words, of equal width."""
    speed, tail = found["ratio"], found.get("tail")
    text = (
        f"{found['arm']:<28} k {found['draft_length']:>2}  at a time {found['running']:>3}  "
        f"speed {speed['median']:.2f} ({speed['min']:.2f} to {speed['max']:.2f})  "
        f"first epoch {found['first_epoch_ratio']:.2f}  "
        f"passes /{found['passes_ratio']['median']:.2f}  "
        f"accepted {found['acceptance_length']:.2f}  "
        f"{found['tokens_per_s']['drafting']:.0f} against {found['tokens_per_s']['paused']:.0f} "
        "tokens/s"
    )
    if tail:
        text += (
            f"  tail {tail['ratio']['median']:.2f} (passes /{tail['passes_ratio']['median']:.2f})"
        )
    return text


def text(found: dict[str, Any]) -> str:
    """The report in words."""
    plain = [
        f"{'none':<28} k  0  at a time {p['running']:>3}  {p['tokens_per_s']['median']:.0f} "
        f"tokens/s ({p['tokens_per_s']['min']:.0f} to {p['tokens_per_s']['max']:.0f})"
        for p in found["plain"]
    ]
    head = (
        f"{found['model']}: {found['pairs']} pairs of {found['requests']} requests, from the "
        f"second epoch of {found['prompts']} prompts; speed and passes are ratios to the same "
        f"engine without drafts (goals {SPEED_GOAL:g} and {PASSES_GOAL:g}), accepted is tokens a "
        "verification"
    )
    return "\n".join([head, *plain, *map(line, found["cells"])])


def check_table(arms: set[str]) -> None:
    """Vouches that a table can be written.

    Raises:
        ConfigError: there is no drafter, or more than one.
    """
    if len(arms) != 1:
        raise ConfigError(
            f"--table holds the speeds of one drafter, these are {len(arms)} "
            f"({', '.join(sorted(arms)) or 'none'}): give one in --arms, besides none."
        )


def write_table(cells: Sequence[Cell], *, plan: Plan, path: Path) -> None:
    """Writes the speeds of one drafter as a table for `auto`."""
    drafting = [c for c in cells if c.pairs]
    speeds = [
        Speed(
            running=c.running,
            draft_length=c.draft_length,
            tokens_per_s=_rate([p.drafting for p in c.pairs], whole),
        )
        for c in drafting
    ]
    for running in sorted({c.running for c in drafting}):
        paused = [p.paused for c in drafting if c.running == running for p in c.pairs]
        speeds.append(Speed(running=running, draft_length=0, tokens_per_s=_rate(paused, whole)))
    measured = {
        "model": plan.model,
        "drafter": drafting[0].spec,
        "device": platform.processor() or platform.machine(),
        "compile": plan.compile,
    }
    SpeedTable(speeds=speeds, measured=measured).write(path)


def whole(played: Round) -> Part:
    """All of a round."""
    return played.whole


def tail(played: Round) -> Part:
    """A round from when at most `TAIL` requests are left."""
    return played.tail


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": _median(values), "min": min(values), "max": max(values)}


def _plain(cell: Cell) -> dict[str, Any]:
    rates = [r.whole.rate for r in cell.plain]
    return {"running": cell.running, "tokens_per_s": spread(rates)}


def _plain_rate(cells: Sequence[Cell], cell: Cell) -> float | None:
    same = [c for c in cells if c.plain and c.running == cell.running]
    return _rate(same[0].plain, whole) if same else None


def _ratio(pair: Pair, take: Take) -> float:
    return take(pair.drafting).rate / take(pair.paused).rate


def _cheaper(pair: Pair) -> float:
    return pair.drafting.whole.cpu_rate / pair.paused.whole.cpu_rate


def _fewer(pair: Pair, take: Take) -> float:
    return take(pair.drafting).tokens_per_pass / take(pair.paused).tokens_per_pass


def _rate(rounds: Sequence[Round], take: Take) -> float:
    return _median([take(r).rate for r in rounds])


def _positions(rounds: Sequence[Round]) -> list[float]:
    drafts = sum(r.drafts for r in rounds)
    width = max(len(r.accepted_per_position) for r in rounds)
    return [
        sum(r.accepted_per_position[i] for r in rounds if i < len(r.accepted_per_position))
        / max(drafts, 1)
        for i in range(width)
    ]


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
