"""Reads run folders as records, where there is no tracking store."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfcr.errors import CheckpointError
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import flatten, spec_hash
from gfcr.tracking.records import TAG, Curve, RunRecord, contradiction


def find_folders(root: Path | str) -> list[Path]:
    """Returns the run folders at `root/study/arm/run`, sorted; those set aside are left out."""
    found = Path(root).glob("*/*/*/run.json")
    return sorted(card.parent for card in found if ".old-" not in card.parent.name)


def result_at(folder: Path) -> Mapping[str, Any]:
    """Returns a run's result; empty without one, or where it is damaged, as a run of it says."""
    with suppress(CheckpointError):
        return RunFolder(folder).result() or {}
    return {}


def read_folders(folders: Iterable[Path], *, series: Sequence[str] = ()) -> list[RunRecord]:
    """Reads run folders, sorted by study, arm, seed and id, as `mlflow_store.read_runs` would.

    Args:
        folders: the run folders to read.
        series: names of the metrics whose values over updates are wanted.

    Raises:
        CheckpointError: one of them is not a run folder.
    """
    found = [read_folder(RunFolder(folder), series=series) for folder in folders]
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


def read_folder(folder: RunFolder, *, series: Sequence[str] = ()) -> RunRecord:
    """Reads one run folder, with the values of the metrics in `series` over updates."""
    card = folder.card()
    tags = {**card.tags, "gfcr.spec_hash": spec_hash(card.spec)}
    record = RunRecord(
        run_id=card.run_id,
        study=card.study,
        arm=card.arm,
        seed=card.seed,
        status="running",
        tags=dict(sorted(tags.items())),
        params=dict(sorted(flatten(card.spec).items())),
        spec=card.spec,
    )
    try:
        recorded = folder.result_digest
        mirrored = {} if recorded is None else {TAG: recorded}
        record = replace(
            record,
            status=folder.status or "running",
            tags=dict(sorted({**tags, **mirrored}.items())),
            result=folder.result(),
            series=_series(folder, names=series) if series else {},
        )
    except CheckpointError as error:
        return replace(record, damage=str(error))
    return replace(record, damage=contradiction(record))


def _series(folder: RunFolder, *, names: Sequence[str]) -> dict[str, Curve]:
    found: dict[str, dict[int, float]] = {name: {} for name in names}
    for line in folder.metrics():
        for name in found.keys() & line.metrics.keys():
            found[name][line.step] = line.metrics[name]
    return {name: tuple(sorted(curve.items())) for name, curve in found.items()}
