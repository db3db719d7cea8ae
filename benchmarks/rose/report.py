"""What `gfcr bench rose` found, as data, as a table and as a picture."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.limits import limits, ratio_limits, words
from benchmarks.rose.live import ARMS, Arm, Played
from benchmarks.rose.measure import Measured, p99
from gfcr.cluster.slack import Objectives
from gfcr.shown import picture
from gfcr.shown.table import Column, Table

_COLOURS: Final[dict[Arm, str]] = {
    "serving": "tab:blue",
    "split": "tab:orange",
    "unadmitted": "tab:green",
    "idle": "tab:purple",
    "rose": "tab:red",
}
_WORDS: Final[dict[Arm, str]] = {
    "serving": "serving only",
    "split": "fixed split",
    "unadmitted": "no admission",
    "idle": "idle alone",
    "rose": "ROSE",
}


def data(found: Measured) -> dict[str, Any]:
    """Arms with intervals over seeds, and every run."""
    plan = {**asdict(found.plan), "engine": dict(found.plan.engine)}
    return {
        "plan": plan,
        "cost": {
            "serving": asdict(found.serving),
            "rollouts": found.rollouts and asdict(found.rollouts),
        },
        "trace": asdict(found.trace),
        "budgets": asdict(found.budgets),
        "arms": [_arm(arm, found) for arm in ARMS],
        "runs": [_run(each) for each in found.played],
    }


def table(told: dict[str, Any]) -> Table[Any]:
    """The arms as a table."""
    budgets = told["budgets"]
    columns: tuple[Column[dict[str, Any]], ...] = (
        Column("arm", lambda row: _WORDS[row["arm"]], words=True),
        Column("P99 TTFT ms", lambda row: _of(row["ttft_p99"], scale=1e3)),
        Column("P99 TPOT ms", lambda row: _of(row["tpot_p99"], scale=1e3)),
        Column("budgets kept", lambda row: f"{row['kept']} of {row['seeds']}"),
        Column("rollout tok/s", lambda row: _of(row["rate"]) if row["rate"] else None),
        Column("over split", lambda row: words(row["faster"]) if row["faster"] else None),
        Column("rerouted", lambda row: row["rerouted"] or None, ".0f"),
        Column("failed", lambda row: row["failed"]),
        Column("remainder", lambda row: row["remainder"]),
    )
    said = (
        f"Budgets: TTFT {budgets['ttft_s'] * 1e3:.0f} ms, TPOT {budgets['tpot_s'] * 1e3:.1f} ms, "
        f"{told['plan']['margin']:g} times P99 of serving only. Intervals are 95 % over "
        f"{told['plan']['seeds']} traces of {told['plan']['seconds']:g} s at "
        f"{told['trace']['rate']:.1f} requests/s."
    )
    return Table(rows=told["arms"], columns=columns, title="ROSE, measured", caption=said)


def draw(found: Measured, *, path: Path) -> Path:
    """Draws latencies of each arm, and one trace with its rollouts.

    Raises:
        ConfigError: as `picture.save`.
    """
    figure = picture.new(10, 7)
    axes = figure.subplots(2, 2)
    for place, name, budget in (
        (axes[0][0], "ttft_s", found.budgets.ttft_s),
        (axes[0][1], "tpot_s", found.budgets.tpot_s),
    ):
        for arm in ARMS:
            values = np.sort([t for p in _of_arm(arm, found) for t in getattr(p.served, name)])
            shares = 1 - np.arange(len(values)) / len(values)
            place.plot(values * 1e3, shares, color=_COLOURS[arm], label=_WORDS[arm])
        place.axvline(budget * 1e3, color="k", linestyle=":", label="budget")
        place.set(
            xscale="log", yscale="log", xlabel=f"{name[:4].upper()}, ms", ylabel="share above"
        )
    axes[0][0].legend(fontsize=8)
    seconds = np.arange(0.0, found.plan.seconds + 0.5, 0.5)
    arrivals = [a.at_s for a in found.trace.arrivals()]  # of seed 0
    axes[1][0].hist(arrivals, bins=seconds, color="tab:grey")
    axes[1][0].set(xlabel="seconds of the first trace", ylabel="requests in 0.5 s")
    _draw_slack(axes[1][0].twinx(), rose=_of_arm("rose", found)[0], budgets=found.budgets)
    for arm in ARMS[1:]:
        counts, _ = np.histogram(_of_arm(arm, found)[0].times, bins=seconds)
        axes[1][1].plot(seconds[:-1] + 0.25, counts * 2, color=_COLOURS[arm], label=_WORDS[arm])
    axes[1][1].set(xlabel="seconds of the first trace", ylabel="rollout tokens/s")
    axes[1][1].legend(fontsize=8)
    return picture.save(figure, path=path)


def _draw_slack(axes: Any, *, rose: Played, budgets: Objectives) -> None:
    """Draws what requests in flight could spare, half of the budgets at most."""
    most = budgets.ttft_s / 2
    places = [at for at, _ in rose.spare]
    spare = [min(max(spare_s, -most), most) * 1e3 for _, spare_s in rose.spare]
    axes.step(places, spare, where="post", color=_COLOURS["rose"], linewidth=0.5)
    axes.set(ylabel="ms that serving can spare (ROSE)")


def _arm(arm: Arm, found: Measured) -> dict[str, Any]:
    own, split = _of_arm(arm, found), _of_arm("split", found)
    ttft = [p99(p.served.ttft_s) for p in own]
    tpot = [p99(p.served.tpot_s) for p in own]
    pairs = zip(ttft, tpot, strict=True)
    rates = [p.rate for p in own]
    pairs_of_rates = [(p.rate, s.rate) for p, s in zip(own, split, strict=True)]
    # A trace in which no rollout was let in has no ratio, nor have all traces together then.
    compared = arm != "split" and all(map(all, pairs_of_rates))
    return {
        "arm": arm,
        "seeds": len(own),
        "ttft_p99": limits(ttft),
        "tpot_p99": limits(tpot),
        "ttft_p99_pooled": p99([t for p in own for t in p.served.ttft_s]),
        "tpot_p99_pooled": p99([t for p in own for t in p.served.tpot_s]),
        "kept": sum(a <= found.budgets.ttft_s and b <= found.budgets.tpot_s for a, b in pairs),
        "rate": limits(rates) if any(rates) else None,
        "faster": ratio_limits([a / b for a, b in pairs_of_rates]) if compared else None,
        "rerouted": sum(p.rerouted for p in own),
        "cuts": sum(p.cuts for p in own),
        "shut_s": sum(p.shut_s for p in own) / len(own),
        "answered": sum(p.served.answered for p in own),
        "failed": sum(len(p.served.failed) for p in own),
        "remainder": sum(p.remainder for p in own),
    }


def _run(played: Played) -> dict[str, Any]:
    served = played.served
    return {
        "arm": played.arm,
        "seed": played.seed,
        "ttft_p99": p99(served.ttft_s),
        "tpot_p99": p99(served.tpot_s),
        "answered": served.answered,
        "failed": served.failed,
        "rate": played.rate,
        "made": played.made,
        "bins": dict(played.bins),
        "remainder": played.remainder,
        "rerouted": played.rerouted,
        "cuts": played.cuts,
        "shut_s": played.shut_s,
    }


def _of_arm(arm: Arm, found: Measured) -> list[Played]:
    return sorted((p for p in found.played if p.arm == arm), key=lambda p: p.seed)


def _of(told: dict[str, float], *, scale: float = 1.0) -> str:
    return words(told, scale=scale, digits=0 if told["value"] * scale >= 20 else 1)
