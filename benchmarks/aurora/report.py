"""What `gfcr bench aurora` found, as data, as a table and as a picture."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.aurora.measure import GOAL, Measured, Played, length_of, recovered
from benchmarks.aurora.stream import Block
from benchmarks.limits import limits, words
from gfcr.shown import picture
from gfcr.shown.table import Column, Table

PAPER: Final = {
    "requests to recovery": 10_000,
    "requests a sync, fastest": 48,
    "requests a sync, best": 80,
    "requests a sync, too lazy": 1600,
}
"""What arXiv 2602.06932 tells, of models of 30B parameters and more."""


def data(found: Measured) -> dict[str, Any]:
    """Arms with intervals over seeds, their curves, and what went wrong on purpose."""
    names = [*dict.fromkeys(p.arm for p in found.played)]
    return {
        "plan": {**asdict(found.plan), "engine": dict(found.plan.engine)},
        "goal": GOAL,
        "arms": [_arm(name, found) for name in names],
        "struck": [asdict(each) for each in found.struck],
        "requests": found.requests,
        "failed": found.failed,
        "paper": PAPER,
        "curves": [_curve(each) for each in found.played],
    }


def table(told: dict[str, Any]) -> Table[Any]:
    """The arms as a table."""
    columns: tuple[Column[dict[str, Any]], ...] = (
        Column("draft", lambda row: row["arm"], words=True),
        Column("before", lambda row: _of(row["before"])),
        Column("just after", lambda row: _of(row["just_after"])),
        Column("in the end", lambda row: _of(row["last"])),
        Column("of offline", lambda row: _of(row["share"])),
        Column("requests to 95 %", lambda row: _recovery(row)),
        Column("tokens/s", lambda row: f"{row['rate']['value']:.0f}"),
        Column("swaps", lambda row: row["swaps"] or None, ".0f"),
    )
    said = [
        f"{each['what']}, seed {each['seed']}: {'over' if each['over'] else 'NOT over'} after "
        f"{each['requests']} requests; {each['before']:.2f}, {each['lowest']:.2f}, "
        f"{each['after']:.2f}"
        for each in told["struck"]
    ]
    caption = (
        f"Acceptance lengths, 95 % intervals over {told['plan']['seeds']} seeds. "
        f"{told['requests']} requests, {told['failed']} failed. {'. '.join(said)}. "
        "Aurora tells about 10,000 requests to recovery."
    )
    return Table(rows=told["arms"], columns=columns, title="Drafts in a shift", caption=caption)


def draw(told: dict[str, Any], *, path: Path) -> Path:
    """Draws acceptance over requests, each arm's seeds in one colour.

    Args:
        told: what `data` said, be it read from a file.
        path: of the picture.

    Raises:
        ConfigError: as `picture.save`.
    """
    figure = picture.new(9, 5)
    axes = figure.subplots()
    names = [arm["arm"] for arm in told["arms"]]
    for curve in told["curves"]:
        number = names.index(curve["arm"])
        axes.plot(
            curve["requests"],
            curve["acceptance_length"],
            color=f"C{number}",
            alpha=0.8,
            linewidth=1.2,
            label=curve["arm"] if curve["seed"] == 0 else None,
        )
    axes.axvline(0, color="k", linestyle=":")
    axes.set(xlabel="requests since the domain shifted", ylabel="acceptance length")
    axes.legend(fontsize=8)
    return picture.save(figure, path=path)


def _arm(name: str, found: Measured) -> dict[str, Any]:
    own, offline = _of_arm(name, found), _of_arm("offline", found)
    just = max(1, 96 // found.plan.block)
    ends = [
        recovered(p, reference=reference.last) for p, reference in zip(own, offline, strict=True)
    ]
    shares = [p.last / reference.last for p, reference in zip(own, offline, strict=True)]
    return {
        "arm": name,
        "before": limits([length_of(p.before) for p in own]) if own[0].before else None,
        "just_after": limits([length_of(p.after[:just]) for p in own]),
        "last": limits([p.last for p in own]),
        "share": limits(shares) if name != "offline" else None,
        "recovered": ends,
        "rate": limits([_rate(p.after) for p in own]),
        "swaps": sum(p.learnt.get("swaps", 0) for p in own) / len(own),
        "rollbacks": sum(p.learnt.get("rollbacks", 0) for p in own) / len(own),
        "missed": sum(p.learnt.get("missed", 0) for p in own) / len(own),
        "learnt": [dict(p.learnt) for p in own],
    }


def _curve(played: Played) -> dict[str, Any]:
    blocks = [*played.before, *played.after]
    first = sum(block.requests for block in played.before)
    ends = [sum(b.requests for b in blocks[: n + 1]) - first for n in range(len(blocks))]
    return {
        "arm": played.arm,
        "seed": played.seed,
        "requests": ends,
        "acceptance_length": [round(block.acceptance_length, 4) for block in blocks],
    }


def _rate(blocks: Sequence[Block]) -> float:
    return sum(b.spent.generated_tokens for b in blocks) / sum(b.seconds for b in blocks)


def _recovery(row: dict[str, Any]) -> str:
    ends = [end for end in row["recovered"] if end is not None]
    missing = len(row["recovered"]) - len(ends)
    said = ", ".join(str(end) for end in ends)
    return said + (f" ({missing} never)" if missing else "")


def _of_arm(name: str, found: Measured) -> list[Played]:
    return sorted((p for p in found.played if p.arm == name), key=lambda p: p.seed)


def _of(told: dict[str, float] | None) -> str | None:
    return words(told) if told else None
