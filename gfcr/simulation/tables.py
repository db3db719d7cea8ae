"""What the simulator says, for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gfcr.simulation.arms import Arm
from gfcr.simulation.check import TOLERANCE, Kind, Row
from gfcr.simulation.recorded import Calibration

if TYPE_CHECKING:
    from rich.table import Table


def arms_table(arms: Sequence[Arm], *, title: str) -> "Table":
    """One line an arm; the best step speed-up is green."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title,
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        caption=f"speed-ups against k=0 without lag, where R_gen = {arms[0].r_gen:.2f}; "
        "bound: drafts verified for free",
    )
    heads = ("draft", "lag", "gen s", "passes", "tokens", "alpha", "wait s", "step s")
    for head in (*heads, "gen", "step", "bound"):
        table.add_column(head, justify="left" if head == "draft" else "right", no_wrap=True)
    best = max(arms, key=lambda arm: arm.step_speedup)
    for arm in arms:
        table.add_row(
            f"k={arm.draft}" if arm.draft.isdecimal() else arm.draft,
            str(arm.lag),
            f"{arm.makespan_s:.3g}",
            f"{arm.forward_passes:.0f}",
            f"{arm.verified / 1e3:.3g}k",
            f"{arm.acceptance_length:.2f}",
            f"{arm.exposed_s:.3g}",
            f"{arm.step_s:.3g}",
            f"{arm.generation_speedup:.2f}x",
            f"{arm.step_speedup:.2f}x",
            f"{arm.bound:.2f}x",
            style="green" if arm is best else None,
        )
    return table


def calibration_lines(found: Calibration, *, replayed_s: float, replayed_passes: float) -> str:
    """What was read from a run, and whether playing it again gives its times back."""
    cost = found.cost
    return (
        f"calibrated on run {found.run_id}, {found.updates} updates (the first left out)\n"
        f"cost of a pass: {cost.base_s * 1e3:.3g} ms + {cost.token_s * 1e6:.3g} us a token, "
        f"mean error {found.cost_error:.1%}\n"
        f"generation of an update: recorded {found.generate_s:.3g} s in "
        f"{found.forward_passes:.0f} passes, simulated {replayed_s:.3g} s in "
        f"{replayed_passes:.0f} passes without drafts\n"
        f"learning {found.train_s:.3g} s, weight sync {found.prepare_s:.3g} s"
        + "".join(f"\nDO NOT TRUST what follows: {doubt}." for doubt in found.doubts)
    )


def check_text(rows: Sequence[Row]) -> list[Any]:
    """The published figures beside ours, by kind of comparison, and the verdict."""
    off = [row for row in rows if row.decides and not row.holds]
    deciding = sum(row.decides for row in rows)
    return [
        *(_check_table(kind, rows=rows) for kind in _TITLES),
        *_missed_lines(rows),
        f"{len(off)} of {deciding} deciding figures are off by more than {TOLERANCE:.0%}"
        + "".join(f"; {row.what}" for row in off),
    ]


_TITLES: dict[Kind, str] = {
    "arithmetic": "Arithmetic: published figures computed from each other by our formulas",
    "prediction": "Prediction: a measured figure computed from other measurements",
    "not modelled": "Not modelled: shown, does not decide; reasons below",
    "projection": "Projection: the paper's is simulated, and so is ours; does not decide",
}


def _check_table(kind: Kind, *, rows: Sequence[Row]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=_TITLES[kind], box=SIMPLE_HEAD, title_justify="left", expand=True)
    table.add_column("figure, and what it was computed from")
    for head in ("paper", "ours", "error"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in (row for row in rows if row.kind == kind):
        table.add_row(
            f"{row.what} [dim]<- {row.given}[/dim]",
            f"{row.paper:.4g}",
            f"{row.ours:.4g}",
            f"{row.error:+.1%}",
            style="red" if row.decides and not row.holds else None,
        )
    return table


def _missed_lines(rows: Sequence[Row]) -> list[str]:
    """Why rows are not modelled, one line a reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.kind == "not modelled":
            reasons.setdefault(row.reason, []).append(row.what)
    return [f"not modelled: {'; '.join(what)}: {reason}." for reason, what in reasons.items()]
