"""Parquet files, one an update: rollouts (`gfcr.tracking.rollouts`), and what a correction made.

A correction is asked when the rollouts are written: `corrections/update-000012.parquet` beside them
has its `weights`, and whether a token was `kept` in the loss, of each `rollout_id`.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from gfcr.errors import damaged
from gfcr.types import Bools, Floats
from gfcr.values.disk import replacing

Corrections: TypeAlias = Mapping[str, tuple[Floats, Bools]]
"""What a correction multiplied the advantage of each token by, and whether it left the token in the
loss, by rollout id."""
_BELOW: Final = "corrections"
_TYPES: Final = {"update": "int32", "rollout_id": "string", "weights": "float[]", "kept": "bool[]"}


def write(
    folder: Path, *, update: int, rows: list[dict[str, Any]], types: Mapping[str, str]
) -> Path:
    """Writes an update's file, which appears whole or not at all, with columns of these types."""
    pa, pq = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    path = folder / f"update-{update:06d}.parquet"
    table = pa.Table.from_pylist(rows, schema=_schema(pa, types))
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file; raises CheckpointError where it is damaged, and names it."""
    pq: Any = importlib.import_module("pyarrow.parquet")  # it ships no types
    try:
        return pq.ParquetFile(path).read().to_pylist()
    except (OSError, ValueError) as error:
        raise damaged(path, why=str(error).rstrip(".")) from error


def files(folder: Path) -> dict[int, Path]:
    """Returns the files of updates in a folder by update, in order; copies beside them are none."""
    found = {file.stem.removeprefix("update-"): file for file in folder.glob("update-*.parquet")}
    return dict(sorted((int(num), file) for num, file in found.items() if num.isdecimal()))


def every_file(folder: Path, *, since: int = 0) -> list[Path]:
    """Returns the files of updates from `since` on, those of corrections too."""
    held = (files(folder), files(folder / _BELOW))
    return [file for each in held for update, file in each.items() if update >= since]


def write_corrections(folder: Path | str, *, made: Corrections, update: int) -> Path:
    """Writes what a correction made of an update whose rollouts are in the folder."""
    rows = [
        {"update": update, "rollout_id": name, "weights": weight_T, "kept": mask_T}
        for name, (weight_T, mask_T) in made.items()
    ]
    return write(Path(folder) / _BELOW, update=update, rows=rows, types=_TYPES)


def corrections_of(path: Path) -> Corrections:
    """Returns what a correction made of the rollouts in a file; nothing where none did."""
    beside = path.parent / _BELOW / path.name
    return {
        row["rollout_id"]: (np.array(row["weights"], np.float32), np.array(row["kept"], np.bool_))
        for row in (read(beside) if beside.exists() else ())
    }


def _schema(pa: Any, types: Mapping[str, str]) -> Any:
    fields = {"request_id": pa.string(), "start": pa.int32(), "stop": pa.int32()}

    def typed(name: str) -> Any:
        if name.endswith("[]"):
            return pa.list_(typed(name[:-2]))
        return pa.struct(fields) if name == "span" else pa.type_for_alias(name)

    return pa.schema({column: typed(kind) for column, kind in types.items()})
