"""`gfcr simulate rose` and `gfcr simulate jigsaw`."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from gfcr.commands import Outcome, to_write, within
from gfcr.shown.table import Column, Table
from gfcr.values.ranges import Count

if TYPE_CHECKING:
    from benchmarks.systems.published import Derived

_HELPS: Final = {
    "rose": "rollouts on serving GPUs, under latency budgets (ROSE)",
    "jigsaw": "several pipelines on one machine, sub-stage by sub-stage (JigsawRL)",
}
_SCENES: Final = {
    "rose": {
        "rate": "serving requests a second",
        "seconds": "of each trace",
        "base_ms": "cost of an iteration",
        "token_ms": "cost of each token in it",
        "seats": "rollouts decoded together",
        "blocks": "of 32 tokens of KV memory",
        "margin": "latency budgets over what serving alone takes at P99",
    },
    "jigsaw": {
        "pipelines": "equal pipelines",
        "steps": "of each",
        "requests": "rollouts a step",
        "depth": "decisions that look-ahead tries",
        "seed": "of the lengths",
    },
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="system", metavar="SYSTEM")
    for system, told in _HELPS.items():
        sub = what.add_parser(system, help=told)
        scene: Any = _scene(system)
        hints = get_type_hints(scene, include_extras=True)
        for field in fields(scene):
            sub.add_argument(
                f"--{field.name.replace('_', '-')}",
                dest=_dest(field.name),
                type=within(hints[field.name]),
                default=field.default,
                help=f"{_SCENES[system][field.name]} ({field.default})",
            )
        if system == "rose":
            sub.add_argument("--seeds", type=within(Count), default=5, help="traces (5)")
        else:
            told = "draw who ran when, or the graph"
            at, kind = _dest("plot"), "FILE.png"
            sub.add_argument("--plot", dest=at, type=to_write, metavar=kind, help=told)
            told = "only print the sub-stages of a recorded run's step"
            sub.add_argument("--graph", type=Path, metavar="RUN", help=told)
        hidden = argparse.SUPPRESS
        sub.add_argument("--json", action="store_true", default=hidden, help=hidden)


def run(options: argparse.Namespace) -> Outcome:
    if getattr(options, "graph", None) is not None:
        return _graph(options)
    scene = _scene(options.system)
    made = scene(**{field.name: getattr(options, _dest(field.name)) for field in fields(scene)})
    return (_rose if options.system == "rose" else _jigsaw)(made, options)


def _dest(name: str) -> str:
    """Returns the attribute of a system's flag; the command's own may have the same name."""
    return f"system_{name}"


def _scene(system: str) -> Any:
    if system == "rose":
        from benchmarks.systems.rose import Scene as RoseScene

        return RoseScene
    from benchmarks.systems.jigsaw import Scene as JigsawScene

    return JigsawScene


def _rose(scene: Any, options: argparse.Namespace) -> Outcome:
    from benchmarks.systems import published, rose

    found, derived = rose.rows(scene, seeds=options.seeds), published.rose()
    columns: tuple[Column[rose.Row], ...] = (
        Column("arm", lambda row: row.arm, words=True),
        Column("P99 TTFT ms", lambda row: row.ttft_p99 * 1e3, ".0f"),
        Column("P99 TPOT ms", lambda row: row.tpot_p99 * 1e3, ".0f"),
        Column("budgets kept", lambda row: f"{row.kept} of {row.seeds}"),
        Column("rollout tok/s", lambda row: row.rollout_rate or None, ".0f"),
        Column("over split", lambda row: row.faster or None, "{:.2f}x".format),
        Column("computed again", lambda row: row.recomputed or None, ".0f"),
        Column("cuts", lambda row: row.cuts or None, ".1f"),
    )
    said = (
        f"One GPU, made up ({_words(scene)}), {options.seeds} bursty traces, the same for all arms."
    )
    table = Table(rows=found, columns=columns, title="ROSE, simulated", caption=said)
    return _outcome(scene, derived=derived, rows=[asdict(row) for row in found], table=table)


def _jigsaw(scene: Any, options: argparse.Namespace) -> Outcome:
    from benchmarks.systems import gantt, jigsaw, published
    from gfcr.shown import picture

    plot = getattr(options, _dest("plot"))
    if plot is not None:
        picture.check(plot)
    found, derived = jigsaw.rows(scene), published.jigsaw()
    if plot is not None:
        gantt.draw(found, path=plot)
    columns: tuple[Column[jigsaw.Row], ...] = (
        Column("scheduler", lambda row: row.scheduler, words=True),
        Column("makespan s", lambda row: row.makespan_s, ".0f"),
        Column("over serial", lambda row: row.faster, "{:.2f}x".format),
        Column("a pipeline's time", lambda row: row.latency, "{:.2f}x".format),
    )
    said = (
        f"Made up ({_words(scene)}): stages of a public repository's step, slowdowns computed from "
        "what each needs of compute and bandwidth. Published: 1.56x mean, 1.85x best."
    )
    table = Table(rows=found, columns=columns, title="JigsawRL, simulated", caption=said)
    kept = [{k: v for k, v in asdict(row).items() if k != "timeline"} for row in found]
    return _outcome(scene, derived=derived, rows=kept, table=table)


def _graph(options: argparse.Namespace) -> Outcome:
    from benchmarks.simulation import recorded, tables
    from benchmarks.systems import stages

    found, plot = recorded.calibrate(options.graph), getattr(options, _dest("plot"))
    nodes = stages.of_run(found)
    if plot is not None:
        stages.draw(nodes, path=plot)
    whole_s = sum(node.stage.work_s for node in nodes)
    columns: tuple[Column[stages.Node], ...] = (
        Column("sub-stage", lambda node: node.stage.kind, words=True),
        Column("seconds", lambda node: node.stage.work_s, ".3g"),
        Column("of the step", lambda node: node.stage.work_s / whole_s, ".0%"),
        Column("tokens", lambda node: node.tokens, words=True),
        Column("rollouts a pass", lambda node: node.running, ".1f"),
        Column("after", lambda node: ", ".join(node.stage.needs), words=True),
    )
    said = "Means over updates; bands meet at the quantiles 0.5 and 0.9 of the recorded lengths."
    table = Table(rows=nodes, columns=columns, title="Sub-stages of a step", caption=said)
    data = {"sub_stages": [asdict(node) for node in nodes], "step_s": whole_s}
    told = tables.doubts(found).strip()
    return Outcome(data={**data, "doubts": found.doubts}, text=[*filter(None, [told]), table])


def _outcome(
    scene: Any, *, derived: "Sequence[Derived]", rows: list[dict[str, Any]], table: Table[Any]
) -> Outcome:
    columns: tuple[Column[Derived], ...] = (
        Column("figure", lambda d: d.what, words=True, wraps=True),
        Column("from", lambda d: d.given, words=True, wraps=True),
        Column("paper", lambda d: d.paper, words=True),
        Column("ours", lambda d: d.ours, words=True),
        Column("", lambda d: d.verdict, words=True),
    )
    reasons: dict[str, list[str]] = {}
    for each in derived:
        if each.reason:
            reasons.setdefault(each.reason, []).append(each.what)
    notes = "\n".join(f"{'; '.join(what)}: {reason}." for reason, what in reasons.items())
    title = "What the published figures say of each other"
    off = [each.what for each in derived if each.verdict == "differs"]
    data = {
        "ok": not off,
        "scene": asdict(scene),
        "arms": rows,
        "derived": [asdict(each) for each in derived],
    }
    text = [table, Table(rows=derived, columns=columns, title=title), notes]
    return Outcome(data=data, text=text, code=1 if off else 0)


def _words(scene: Any) -> str:
    return ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in asdict(scene).items())
