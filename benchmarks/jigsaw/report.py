"""What `gfcr bench jigsaw` found, as data, as a table and as a picture."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.jigsaw.measure import ARMS, Round
from benchmarks.limits import ratio_limits, words
from gfcr.cluster.jigsaw.substages import Slowdown
from gfcr.shown import picture
from gfcr.shown.table import Column, Table

_COLOURS: Final = {
    "start": "tab:grey",
    "evaluate": "tab:purple",
    "decode": "tab:blue",
    "tail": "tab:green",
    "train": "tab:red",
}


def data(slowdown: Slowdown, rounds: Sequence[Round]) -> dict[str, Any]:
    """Schedulers with intervals over seeds, every round, and the slowdowns."""
    return {
        "schedulers": [_row(name, rounds) for name in ARMS],
        "rounds": [
            {
                **{k: v for k, v in asdict(r).items() if k not in ("lent", "rollouts", "models")},
                "sub_stages": len(r.lent),
            }
            for r in rounds
        ],
        "slowdowns": [[*key, times] for key, times in slowdown.times.items()],
    }


def table(told: dict[str, Any]) -> Table[Any]:
    """The schedulers as a table."""
    columns: tuple[Column[dict[str, Any]], ...] = (
        Column("scheduler", lambda row: row["scheduler"], words=True),
        Column("makespan s", lambda row: row["makespan_s"], ".1f"),
        Column("over serial", lambda row: words(row["over_serial"])),
        Column("over unmanaged", lambda row: words(row["over_unmanaged"])),
        Column("measured over simulated", lambda row: words(row["over_predicted"])),
        Column("same rollouts", lambda row: f"{row['same_rollouts']} of {row['rollouts']}"),
        Column("weights apart", lambda row: row["apart"], ".1e"),
    )
    said = "Ratios of makespans: geometric means over seeds with 95 % intervals."
    return Table(rows=told["schedulers"], columns=columns, title="JigsawRL, measured", caption=said)


def draw(rounds: Sequence[Round], *, path: Path) -> Path:
    """Draws who ran what when under each scheduler, under the first seed.

    Raises:
        ConfigError: as `picture.save`.
    """
    first = {r.scheduler: r for r in rounds if r.seed == rounds[0].seed}
    figure = picture.new(11, 1.5 * len(first))
    for axes, name in zip(figure.subplots(len(first), 1, sharex=True), ARMS, strict=True):
        lent = first[name].lent
        trials = [*dict.fromkeys(each.trial for each in lent)]
        began = min(s.begin_s for each in lent for s in each.stretches)
        for each in lent:
            for s in each.stretches:
                wide = s.end_s - s.begin_s
                high = 0.8 if s.share is None else 0.4
                at = trials.index(each.trial)
                colour = _COLOURS[each.kind]
                axes.barh(at, wide, left=s.begin_s - began, height=high, color=colour)
        axes.set_yticks(range(len(trials)), trials, fontsize=7)
        axes.set_ylabel(name, rotation=0, ha="right", labelpad=30)
    figure.axes[-1].set_xlabel("seconds; thin: on half of the cores")
    for kind, colour in _COLOURS.items():
        figure.axes[0].plot([], [], color=colour, linewidth=6, label=kind)
    figure.legend(loc="outside upper center", ncols=len(_COLOURS), fontsize=8)
    return picture.save(figure, path=path)


def _row(name: str, rounds: Sequence[Round]) -> dict[str, Any]:
    by_seed: dict[str, dict[int, Round]] = {}
    for each in rounds:
        by_seed.setdefault(each.scheduler, {})[each.seed] = each
    own, serial = by_seed[name], by_seed["serial"]
    pairs = [(found, serial[seed]) for seed, found in own.items()]
    rollouts = [
        base.rollouts.get(r) == d for found, base in pairs for r, d in found.rollouts.items()
    ]
    return {
        "scheduler": name,
        "makespan_s": sum(r.makespan_s for r in own.values()) / len(own),
        "over_serial": _ratio(own, serial),
        "over_unmanaged": _ratio(own, by_seed["unmanaged"]),
        "over_predicted": ratio_limits([r.makespan_s / r.predicted_s for r in own.values()]),
        "rollouts": len(rollouts),
        "same_rollouts": sum(rollouts),
        "apart": max((far for found in own.values() for far in found.apart.values()), default=0.0),
    }


def _ratio(own: dict[int, Round], base: dict[int, Round]) -> dict[str, float]:
    return ratio_limits([found.makespan_s / base[seed].makespan_s for seed, found in own.items()])
