"""Shows the simulator's results in the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from gfcr.shown.table import Column, Table
from gfcr.simulation.arms import Arm
from gfcr.simulation.check import TOLERANCE, Kind, Row
from gfcr.simulation.recorded import Calibration

_ARMS: tuple[Column[Arm], ...] = (
    Column("draft", lambda a: f"k={a.draft}" if a.draft.isdecimal() else a.draft, words=True),
    Column("lag", lambda arm: arm.lag),
    Column("gen s", lambda arm: arm.makespan_s, ".3g"),
    Column("passes", lambda arm: arm.forward_passes, ".0f"),
    Column("tokens", lambda arm: arm.verified / 1e3, "{:.3g}k".format),
    Column("alpha", lambda arm: arm.acceptance_length, ".2f"),
    Column("wait s", lambda arm: arm.exposed_s, ".3g"),
    Column("step s", lambda arm: arm.step_s, ".3g"),
    Column("gen", lambda arm: arm.generation_speedup, "{:.2f}x".format),
    Column("step", lambda arm: arm.step_speedup, "{:.2f}x".format),
    Column("bound", lambda arm: arm.bound, "{:.2f}x".format),
)
_CHECK: tuple[Column[Row], ...] = (
    Column(
        "figure, and what it was computed from",
        lambda row: Text.assemble(row.what, (f" <- {row.given}", "dim")),
        words=True,
        wraps=True,
    ),
    Column("paper", lambda row: row.paper, ".4g"),
    Column("ours", lambda row: row.ours, ".4g"),
    Column("error", lambda row: row.error, "+.1%"),
)


def arms_table(arms: Sequence[Arm], *, title: str) -> Table[Arm]:
    """Returns a table with one row per arm; the best step speed-up is green."""
    best = max(arms, key=lambda arm: arm.step_speedup)
    return Table(
        rows=arms,
        columns=_ARMS,
        title=title,
        caption=f"speed-ups against k=0 without lag, where R_gen = {arms[0].r_gen:.2f}; "
        "bound: drafts verified for free",
        style=lambda arm: "green" if arm is best else "",
    )


def calibration_lines(found: Calibration, *, replayed_s: float, replayed_passes: float) -> str:
    """Returns the figures read from a run, and whether simulating it gives its times back."""
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
    """Returns published figures beside ours, by kind of comparison, and the verdict."""
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


def _check_table(kind: Kind, *, rows: Sequence[Row]) -> Table[Row]:
    return Table(
        rows=[row for row in rows if row.kind == kind],
        columns=_CHECK,
        title=_TITLES[kind],
        style=lambda row: "red" if row.decides and not row.holds else "",
    )


def _missed_lines(rows: Sequence[Row]) -> list[str]:
    """Returns why rows are not modelled, one line per reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.kind == "not modelled":
            reasons.setdefault(row.reason, []).append(row.what)
    return [f"not modelled: {'; '.join(what)}: {reason}." for reason, what in reasons.items()]
