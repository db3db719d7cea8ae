"""A report as JSON and as terminal tables."""

from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from gfcr.ledger import REPLAYED, TRAINED
from gfcr.offline.evaluate import Report, Selection
from gfcr.offline.measure import Bias


def to_dict(report: Report) -> dict[str, Any]:
    """Returns everything as JSON values; what is not known (NaN) is null."""
    log = report.log
    return {
        "run": str(log.folder),
        "run_id": log.run_id,
        "recorded": log.strategy,
        "updates": len(log.updates),
        "group_size": log.group_size,
        "prompts": report.prompts,
        "strategies": [_plain(asdict(s)) for s in report.selections],
    }


def to_rich(report: Report) -> Group:
    """Returns what is selected, how it is biased, and what the log cannot answer."""
    log = report.log
    answered = [s for s in report.selections if s.refused is None]
    refused = [s for s in report.selections if s.refused is not None]
    title = (
        f"{log.strategy}, {len(log.updates)} updates, groups of {log.group_size} or more; "
        f"{report.prompts} accepted groups fill a batch"
    )
    pieces: list[Any] = [title]
    if answered:
        pieces += ["", _selected(answered), "", _biases(answered)]
    pieces += [f"[red]not answered[/] {escape(s.name)}: {escape(s.refused or '')}" for s in refused]
    return Group(*pieces)


def _selected(selections: list[Selection]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("strategy")
    heads = ("groups", "rollouts", "signal", "signal/1k", "difference", "p", "adv²", "ess")
    for head in (*heads, "tokens", "trained"):
        table.add_column(head, justify="right")
    for s in selections:
        used = s.tokens.get(TRAINED, 0) + s.tokens.get(REPLAYED, 0)
        table.add_row(
            escape(s.name),
            f"{s.groups_accepted}/{s.groups_begun}",
            f"{s.rollouts_trained}/{s.rollouts_generated}",
            f"{s.signal_rate:.0%}",
            f"{s.signal_per_1k:.2f}",
            *_versus(s),
            f"{s.mean_squared_advantage:.2f}",
            f"{s.effective_size:.0f}",
            f"{s.tokens['generated']:,}",
            f"{used / max(s.tokens['generated'], 1):.0%}",
        )
    return table


def _versus(selection: Selection) -> tuple[str, str]:
    if selection.versus is None:
        return "", ""
    d = selection.versus.comparison.difference
    limits = f" [{d.low:+.2f}, {d.high:+.2f}]" if isfinite(d.low) else ""
    return f"{d.value:+.2f}{limits}", _p(selection.versus.p_adjusted)


def _biases(selections: list[Selection]) -> Table:
    table = Table(title="trained against generated rollouts", box=None, pad_edge=False)
    for head in ("strategy", "of"):
        table.add_column(head)
    for head in ("generated", "trained", "difference", "effect (sd)", "p"):
        table.add_column(head, justify="right")
    for s in selections:
        for kind, bias in s.bias.items():
            table.add_row(escape(s.name), kind, *_bias(bias))
    return table


def _bias(bias: Bias) -> tuple[str, ...]:
    d = bias.difference
    limits = f" [{d.low:+.2f}, {d.high:+.2f}]" if isfinite(d.low) else ""
    return (
        f"{bias.generated:.2f}",
        f"{bias.trained:.2f}",
        f"{d.value:+.2f}{limits}",
        f"{bias.effect:+.2f}",
        _p(bias.p_value),
    )


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None if isinstance(value, float) and not isfinite(value) else value
