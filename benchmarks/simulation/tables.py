"""Shows the simulator's results in the terminal."""

from collections.abc import Sequence

from benchmarks.simulation.arms import Arm
from benchmarks.simulation.recorded import Calibration
from gfcr.shown.table import Column, Table

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
        f"learning {found.train_s:.3g} s, weight sync {found.prepare_s:.3g} s" + doubts(found)
    )


def doubts(found: Calibration) -> str:
    """Returns why nothing that follows from a run is to be trusted, a line each; empty if it is."""
    return "".join(f"\nDO NOT TRUST what follows: {doubt}." for doubt in found.doubts)
