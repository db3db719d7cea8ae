"""What an undecided cell has gathered, kept in a file for the next command that asks the same."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final
from zipfile import BadZipFile

import numpy as np

from gfcr.audit.evidence import Evidence, arrays_of, built
from gfcr.audit.greedy import Tally
from gfcr.audit.rounds import Ended
from gfcr.certificate.cell import Cell, Verdict

FOLDER: Final = "undecided"
"""Folder of the files, beside the certificates."""


@final
@dataclass(kw_only=True)
class Kept:
    """The rounds of a cell so far: counts, and either evidence or a tally of greedy tokens."""

    ended: Ended = field(default_factory=Ended)
    evidence: Evidence | None = None
    tally: Tally = field(default_factory=Tally)

    def leave(self, path: Path, *, after: Cell) -> None:
        """Keeps what was gathered in a file; of a cell that is decided nothing stays."""
        if after.verdict is not Verdict.INCONCLUSIVE:
            path.unlink(missing_ok=True)
            return
        self.ended.judged += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        counts = json.dumps({"ended": vars(self.ended), "tally": vars(self.tally)})
        arrays: dict[str, Any] = arrays_of(self.evidence)
        unfinished = path.with_suffix(".part.npz")  # a kill never leaves half a file
        np.savez(unfinished, counts=counts, **arrays)
        unfinished.replace(path)


def read(path: Path | None) -> Kept:
    """Reads a file; nothing was gathered where there is none, or it is damaged."""
    if path is None or not path.exists():
        return Kept()
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held}
        counts = json.loads(str(arrays.pop("counts")))
        tally = counts["tally"]
        for name in ("positions", "drafts"):  # JSON made text of these numbers
            tally[name] = Counter({int(band): num for band, num in tally[name].items()})
        evidence = built(arrays) if arrays else None
        return Kept(ended=Ended(**counts["ended"]), evidence=evidence, tally=Tally(**tally))
    except (OSError, ValueError, KeyError, TypeError, BadZipFile):
        return Kept()


def path_of(folder: Path, *, label: str, about: Sequence[Any]) -> Path:
    """Returns the file of a cell, by a digest of all that decides what it samples."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    return folder / FOLDER / f"{label}-{digest.hexdigest()[:12]}.npz"
