"""The measured cells of `gfcr bench speculation`, as JSON, as a table, as a file for `auto`."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.rounds import TAIL, Round, acceptance_length, spread
from benchmarks.speculation import Cell, Pair, Plan
from gfcr.certificate.record import device_name
from gfcr.engine.base import EngineStats
from gfcr.errors import ConfigError
from gfcr.shown.table import Column, Table
from gfcr.speculation.table import Speed, SpeedTable

SPEED_GOAL: Final = 2.0
PASSES_GOAL: Final = 3.0


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
        "engine": dict(plan.engine),
        "policies": list(plan.policies),
        "goal": {"speed": SPEED_GOAL, "passes": PASSES_GOAL},
        "plain": [
            {"running": c.running, "tokens_per_s": spread([r.whole.rate for r in c.plain])}
            for c in cells
            if c.plain
        ],
        "cells": [row(c, share=share, plain=_plain_rate(cells, c)) for c in cells if c.pairs],
    }


def row(cell: Cell, *, share: float | None = None, plain: float | None = None) -> dict[str, Any]:
    """One cell as JSON."""
    rounds, without = [p.drafting for p in cell.pairs], [p.paused for p in cell.pairs]
    spent = [r.spent for r in rounds]
    alpha = acceptance_length(spent)
    paused = _median(without, "whole.rate")
    speeds = _gains(cell.pairs, "whole.rate")
    assert cell.first
    found: dict[str, Any] = {
        "arm": cell.arm,
        "draft_length": cell.draft_length,
        "running": cell.running,
        "spec": cell.spec,
        "certificate": cell.certificate,
        "ratio": spread(speeds),
        "ratios": speeds,
        "first_epoch_ratio": _gains([cell.first], "whole.rate")[0],
        "cpu_ratio": spread(_gains(cell.pairs, "whole.cpu_rate")),
        "passes_ratio": spread(_gains(cell.pairs, "whole.tokens_per_pass")),
        "tokens_ratio": spread(_gains(cell.pairs, "whole.tokens")),
        "tokens_per_s": {"drafting": _median(rounds, "whole.rate"), "paused": paused},
        "paused_to_plain": paused / plain if plain else None,
        "acceptance_length": alpha,
        "acceptance_by_position": _positions(spent),
        "counts": {
            "forward_passes": sum(r.whole.passes for r in rounds),
            "emitted": sum(r.whole.tokens for r in rounds),
            "verified": sum(s.drafted_tokens + s.drafts for s in spent),
            "drafted": sum(s.drafted_tokens for s in spent),
            "accepted": sum(s.accepted_tokens for s in spent),
        },
    }
    with_tail = [p for p in cell.pairs if p.drafting.tail and p.paused.tail]
    if cell.running > TAIL and with_tail:
        found["tail"] = {
            "running": TAIL,
            "pairs": len(with_tail),
            "ratio": spread(_gains(with_tail, "tail.rate")),
            "passes_ratio": spread(_gains(with_tail, "tail.tokens_per_pass")),
            "seconds": {
                "drafting": _median([p.drafting for p in with_tail], "tail.seconds"),
                "paused": _median([p.paused for p in with_tail], "tail.seconds"),
            },
        }
    if share is not None:
        found["step"] = {
            "generation_share": share,
            "bound": 1 / (share / alpha + 1 - share),
            "estimate": 1 / (share / median(speeds) + 1 - share),
        }
    return found


def text(found: dict[str, Any]) -> list[Any]:
    """The report in words and as a table."""
    head = (
        f"{found['model']}: {found['pairs']} pairs of {found['requests']} requests, from the "
        f"second epoch of {found['prompts']} prompts; speed and passes are ratios to the same "
        f"engine without drafts (goals {SPEED_GOAL:g} and {PASSES_GOAL:g}), so are the tokens "
        "made, accepted is tokens a verification"
    )
    plain = [
        f"none, {p['running']} at a time: {_told(p['tokens_per_s'], '.0f')} tokens/s"
        for p in found["plain"]
    ]
    return [head, *plain, Table(rows=found["cells"], columns=_CELLS), *_of_other_text(found)]


def _of_other_text(found: Mapping[str, Any]) -> list[str]:
    """Names the arms whose speed may be that of another text than the policy's."""
    arms = {c["arm"]: c["certificate"] for c in found["cells"] if c["certificate"] != "lossless"}
    return [
        f"{arm}: certificate {held}, so that this may be the speed of another text than the "
        "policy's; `gfcr audit --drafter` tells"
        for arm, held in arms.items()
    ]


def _told(found: Mapping[str, float], form: str = ".2f") -> str:
    return f"{found['median']:{form}} ({found['min']:{form}} to {found['max']:{form}})"


def _tail(cell: Mapping[str, Any], figure: str) -> float | None:
    return cell["tail"][figure]["median"] if "tail" in cell else None


_CELLS: tuple[Column[Mapping[str, Any]], ...] = (
    Column("arm", lambda c: c["arm"], words=True, wraps=True),
    Column("k", lambda c: c["draft_length"]),
    Column("at a time", lambda c: c["running"]),
    Column("speed", lambda c: c["ratio"], _told),
    Column("first\nepoch", lambda c: c["first_epoch_ratio"], ".2f"),
    Column("passes /", lambda c: c["passes_ratio"]["median"], ".2f"),
    Column("accepted", lambda c: c["acceptance_length"], ".2f"),
    Column("made /", lambda c: c["tokens_ratio"]["median"], ".2f"),
    Column("certificate", lambda c: c["certificate"], words=True),
    Column("tokens/s", lambda c: c["tokens_per_s"]["drafting"], ".0f"),
    Column("without", lambda c: c["tokens_per_s"]["paused"], ".0f"),
    Column("tail", lambda c: _tail(c, "ratio"), ".2f", spare=1),
    Column("tail\npasses /", lambda c: _tail(c, "passes_ratio"), ".2f", spare=2),
)


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
            tokens_per_s=_median([p.drafting for p in c.pairs], "whole.rate"),
        )
        for c in drafting
    ]
    for running in sorted({c.running for c in drafting}):
        paused = [p.paused for c in drafting if c.running == running for p in c.pairs]
        speeds.append(
            Speed(running=running, draft_length=0, tokens_per_s=_median(paused, "whole.rate"))
        )
    measured = {
        "model": plan.model,
        "drafter": drafting[0].spec,
        "device": device_name(),
        "engine": dict(plan.engine),
    }
    SpeedTable(speeds=speeds, measured=measured).write(path)


def _plain_rate(cells: Sequence[Cell], cell: Cell) -> float | None:
    same = [c for c in cells if c.plain and c.running == cell.running]
    return _median(same[0].plain, "whole.rate") if same else None


def _gains(pairs: Sequence[Pair], figure: str) -> list[float]:
    """A figure with drafts over the same without, by pair."""
    of = attrgetter(figure)
    return [of(pair.drafting) / of(pair.paused) for pair in pairs]


def _median(rounds: Sequence[Round], figure: str) -> float:
    return median(map(attrgetter(figure), rounds))


def _positions(spent: Sequence[EngineStats]) -> list[float]:
    """Accepted drafts by position, a draft."""
    drafts = sum(s.drafts for s in spent)
    places = zip_longest(*(s.accepted_per_position for s in spent), fillvalue=0)
    return [sum(accepted) / max(drafts, 1) for accepted in places]
