"""Calibrates a simulation on a recorded run: lengths, cost of a pass, stage times."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from benchmarks.simulation.acceptance import Counts
from gfcr.errors import CheckpointError
from gfcr.speculation.budget import fit_pass_cost
from gfcr.speculation.cost import PassCost
from gfcr.tracking.folder import RunFolder

MIN_UPDATES = 4
"""Updates needed to fit two constants, after the first, which warms up the engine."""
MAX_COST_ERROR = 0.25
"""Error above which the cost does not describe the run (DAS reports about 0.12 for its fit)."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The properties of a recorded run's machine, model and task; means over updates."""

    run_id: str
    updates: int
    lengths: tuple[Counts, ...]
    """Sampled tokens of every rollout, one entry per update."""
    max_running: int
    cost: PassCost
    cost_error: float
    """The mean of |fitted - measured| / measured over updates."""
    generate_s: float
    forward_passes: float
    train_s: float
    prepare_s: float
    branched: bool = False
    """Whether some rollouts begin as branches of others."""

    @property
    def doubts(self) -> list[str]:
        """Reasons not to trust a projection from it; empty when there are none."""
        cost = self.cost
        doubts: list[str] = []
        if self.cost_error > MAX_COST_ERROR:
            doubts.append(
                f"the cost of a pass misses the recorded times by {self.cost_error:.0%} on "
                "average: something else took the time, such as other work on the machine"
            )
        if not (cost.base_s and cost.token_s):
            zero = "pass" if not cost.base_s else "token"
            doubts.append(
                f"the cost of a {zero} came out as 0: the updates are too alike to tell passes "
                "from tokens; record batches of different sizes"
            )
        if self.branched:
            doubts.append(
                "rollouts are branches of others, and are simulated as if each began by itself; "
                "record a run whose rollouts do not branch"
            )
        return doubts


def calibrate(folder: Path) -> Calibration:
    """Calibrates on a run folder.

    Raises:
        CheckpointError: it is no run folder, or has too few updates to fit a cost to.
    """
    records = RunFolder(folder)
    card = records.card()
    # An update's rollouts are written before its metrics: a run still going has one file more.
    made = [m for m in records.metrics() if "engine/forward_passes" in m.metrics][1:]
    files = records.updates
    whole = [(m.metrics, _fresh(files[m.step - 1])) for m in made if m.step - 1 in files]
    whole = [(metrics, rows) for metrics, rows in whole if rows]  # else all was replayed
    if len(whole) < MIN_UPDATES:
        raise CheckpointError(
            f"{folder} has {len(whole)} updates with engine metrics and rollouts after its first: "
            f"at least {MIN_UPDATES} are needed to fit the cost of a pass. Let the run make "
            f"{MIN_UPDATES + 1} updates or more (trainer.max_steps)."
        )
    lines = [metrics for metrics, _ in whole]
    passes_U, tokens_U, seconds_U = (
        np.array([read(line) for line in lines]) for read in (_passes, _tokens, _seconds)
    )
    cost = fit_pass_cost(passes_U=passes_U, tokens_U=tokens_U, seconds_U=seconds_U)
    fitted_U = cost.base_s * passes_U + cost.token_s * tokens_U
    return Calibration(
        run_id=card.run_id,
        updates=len(lines),
        lengths=tuple(np.array([r["sampled_tokens"] for r in rows], np.int64) for _, rows in whole),
        max_running=_max_running(card.spec),
        cost=cost,
        cost_error=float(np.mean(np.abs(fitted_U - seconds_U) / np.maximum(seconds_U, 1e-12))),
        generate_s=float(seconds_U.mean()),
        forward_passes=float(passes_U.mean()),
        train_s=_mean(lines, key="time/train_s"),
        prepare_s=_mean(lines, key="time/sync_s"),
        branched=any(row["fork_at"] for _, rows in whole for row in rows),
    )


def _passes(metrics: Mapping[str, float]) -> float:
    return metrics["engine/forward_passes"]


def _seconds(metrics: Mapping[str, float]) -> float:
    return metrics["time/generate_s"]


def _tokens(metrics: Mapping[str, float]) -> float:
    """Returns the tokens that went through the model: those generated, and rejected drafts."""
    generated = metrics["rate/rollout_tokens_per_s"] * metrics["time/rollout_s"]
    drafted, accepted = (metrics.get(f"speculation/{k}", 0.0) for k in ("drafted", "accepted"))
    return generated + drafted - accepted


def _mean(lines: list[Mapping[str, float]], *, key: str) -> float:
    return float(np.mean([line.get(key, 0.0) for line in lines]))


def _fresh(file: Path) -> list[dict[str, Any]]:
    """Returns the rollouts that this update generated, aborted ones included."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    rows = parquet.read_table(file, columns=["origin", "sampled_tokens", "fork_at"]).to_pylist()
    return [row for row in rows if row["origin"] == "fresh" and row["sampled_tokens"]]


def _max_running(spec: Mapping[str, Any]) -> int:
    return int(spec["engine"].get("max_running", 256))
