"""Shows a report as JSON and as terminal tables."""

from functools import partial
from typing import Any

from rich.console import Group
from rich.markup import escape

from gfcr.ledger import REPLAYED, TRAINED
from gfcr.offline.evaluate import Report, Selection
from gfcr.offline.measure import Bias
from gfcr.shown.table import Column, Table
from gfcr.shown.text import plain, span


def to_dict(report: Report) -> dict[str, Any]:
    """Returns the whole report as JSON values; NaN (not known) becomes null."""
    log = report.log
    return {
        "run": str(log.folder),
        "run_id": log.run_id,
        "recorded": log.strategy,
        "updates": len(log.updates),
        "group_size": log.group_size,
        "prompts": report.prompts,
        "strategies": plain(report.selections),
    }


def to_rich(report: Report) -> Group:
    """Returns tables of what is selected and its bias, and what the log cannot answer."""
    log = report.log
    answered = [s for s in report.selections if s.refused is None]
    refused = [s for s in report.selections if s.refused is not None]
    title = (
        f"{escape(log.strategy)}, {len(log.updates)} updates, groups of {log.group_size} or more; "
        f"{report.prompts} accepted groups fill a batch"
    )
    pieces: list[Any] = [title]
    if answered:
        biases = [(s.name, kind, bias) for s in answered for kind, bias in s.bias.items()]
        title = "trained against generated rollouts"
        pieces += ["", Table(rows=answered, columns=_SELECTED)]
        pieces += ["", Table(rows=biases, columns=_BIASES, title=title)]
    pieces += [f"[red]not answered[/] {escape(s.name)}: {escape(s.refused or '')}" for s in refused]
    return Group(*pieces)


_span = partial(span, form="+.2f")
_SELECTED: tuple[Column[Selection], ...] = (
    Column("strategy", lambda s: s.name, words=True, wraps=True),
    Column("groups", lambda s: f"{s.groups_accepted}/{s.groups_begun}"),
    Column("rollouts", lambda s: f"{s.rollouts_trained}/{s.rollouts_generated}"),
    Column("signal", lambda s: s.signal_rate, ".0%"),
    Column("signal/1k", lambda s: s.signal_per_1k, ".2f"),
    Column("difference", lambda s: s.versus and s.versus.comparison.difference, _span),
    Column("p", lambda s: s.versus and _p(s.versus.p_adjusted)),
    Column("adv²", lambda s: s.mean_squared_advantage, ".2f"),
    Column("ess", lambda s: s.effective_size, ".0f"),
    Column("tokens", lambda s: s.tokens["generated"], ","),
    Column("trained", lambda s: _used(s) / max(s.tokens["generated"], 1), ".0%"),
)
_BIASES: tuple[Column[tuple[str, str, Bias]], ...] = (
    Column("strategy", lambda row: row[0], words=True, wraps=True),
    Column("of", lambda row: row[1], words=True),
    Column("generated", lambda row: row[2].generated, ".2f"),
    Column("trained", lambda row: row[2].trained, ".2f"),
    Column("difference", lambda row: row[2].difference, _span),
    Column("effect (sd)", lambda row: row[2].effect, "+.2f"),
    Column("p", lambda row: _p(row[2].p_value)),
)


def _used(selection: Selection) -> int:
    return selection.tokens.get(TRAINED, 0) + selection.tokens.get(REPLAYED, 0)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"
