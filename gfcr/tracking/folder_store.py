"""Run folders read back as records, for whoever has no tracking store at hand."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import flatten, spec_hash
from gfcr.tracking.records import Curve, RunRecord


def find_folders(root: Path | str) -> list[Path]:
    """Returns the run folders at `root/study/arm/run`, sorted; those set aside are left out."""
    found = Path(root).glob("*/*/*/run.json")
    return sorted(card.parent for card in found if ".old-" not in card.parent.name)


def read_folders(folders: Iterable[Path], *, series: Sequence[str] = ()) -> list[RunRecord]:
    """Reads run folders, sorted by study, arm, seed and id, as `mlflow_store.read_runs` would.

    Args:
        folders: run folders.
        series: metrics whose course over updates is wanted.

    Raises:
        CheckpointError: one is not a run folder.
    """
    found = [_record(RunFolder(folder), series=series) for folder in folders]
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


def _record(folder: RunFolder, *, series: Sequence[str]) -> RunRecord:
    card = folder.card()
    tags = {**card.tags, "gfcr.spec_hash": spec_hash(card.spec)}
    return RunRecord(
        run_id=card.run_id,
        study=card.study,
        arm=card.arm,
        seed=card.seed,
        status=folder.status or "running",
        tags=dict(sorted(tags.items())),
        params=dict(sorted(flatten(card.spec).items())),
        result=folder.result(),
        spec=card.spec,
        series=_series(folder, names=series) if series else {},
    )


def _series(folder: RunFolder, *, names: Sequence[str]) -> dict[str, Curve]:
    lines = list(folder.metrics())
    found = {
        name: tuple((line.step, line.metrics[name]) for line in lines if name in line.metrics)
        for name in names
    }
    return {name: curve for name, curve in found.items() if curve}
