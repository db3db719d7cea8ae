"""What updates of an experiment cost on this machine: seconds by phase, and memory at its peak.

The experiment runs as it stands, in a folder of its own, for a few updates after one that warms up.
"""

import os
import resource
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from gfcr import experiment
from gfcr.certificate.record import device_name
from gfcr.config import Budget, Experiment
from gfcr.experiment.source import Progress
from gfcr.shown.table import Column, Table

PHASES: Final = ("generate", "rollout", "train", "sync", "step")
"""Seconds of an update: `rollout` holds `generate`, and `step` all of them."""
Row: TypeAlias = Mapping[str, Any]


def measure(config: Experiment, *, updates: int) -> dict[str, Any]:
    """Runs one update and `updates` more, and returns the medians of these; keeps no records."""
    seen: list[Mapping[str, float]] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.metrics)

    trainer = {**config.trainer, "max_steps": updates + 1, "save_every": updates + 1}
    with TemporaryDirectory(prefix="gfcr-bench-") as folder:
        small = {"folder": folder, "tracking": {"name": "local"}, "trainer": trainer}
        # A budget would end the run before its updates are measured.
        small |= {"budget": Budget(), "evaluation": replace(config.evaluation, every=0)}
        experiment.run(replace(config, **small), watch=watch)
    typical = [m for m in seen[1:] if not m.get("train/skipped")] or seen[1:]
    made = [m["rate/rollout_tokens_per_s"] * m["time/rollout_s"] for m in typical]
    times = {f"{p}_s": median(m.get(f"time/{p}_s", 0.0) for m in typical) for p in PHASES}
    return {
        "model": config.model,
        "arm": config.name,
        "device": device_name(),
        "cores": len(os.sched_getaffinity(0)),
        "updates": len(typical),
        "rollouts": median(m["rollouts/all"] for m in typical),
        "tokens": median(made),
        **times,
        "tokens_per_s": median(made) / max(times["generate_s"], 1e-9),
        **_peaks(),
    }


def text(found: Row) -> str:
    """The figures as a table in Markdown, to stand in a page."""
    return Table(rows=[found], columns=_COLUMNS).markdown()


def _peaks() -> dict[str, float | None]:
    """GiB that this process has held at most: of the machine's memory, and of the accelerator's."""
    import torch

    cuda: Any = torch.cuda
    device = cuda.max_memory_reserved() / 2**30 if cuda.is_available() else None
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"host_gib": host, "device_gib": device}


_COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("model", lambda row: row["model"], words=True),
    Column("arm", lambda row: row["arm"], words=True),
    Column("machine", lambda row: f"{row['device']}, {row['cores']} cores", words=True),
    Column("rollouts", lambda row: row["rollouts"], ",.0f"),
    Column("tokens", lambda row: row["tokens"], ",.0f"),
    Column("generate, s", lambda row: row["generate_s"], ".2f"),
    Column("train, s", lambda row: row["train_s"], ".2f"),
    Column("sync, s", lambda row: row["sync_s"], ".2f"),
    Column("update, s", lambda row: row["step_s"], ".2f"),
    Column("tokens/s", lambda row: row["tokens_per_s"], ",.0f"),
    Column("GiB, host", lambda row: row["host_gib"], ".1f"),
    Column("GiB, GPU", lambda row: row["device_gib"], ".1f"),
)
