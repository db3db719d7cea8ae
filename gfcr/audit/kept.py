"""What a cell has gathered, kept in a file for the next command that asks the same if undecided."""

import hashlib
import json
import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from gfcr.audit.evidence import Evidence
from gfcr.audit.greedy import Compared
from gfcr.audit.sampler import Sampled
from gfcr.certificate.cell import Cell, Verdict
from gfcr.engine.base import EngineStats
from gfcr.values.disk import replacing

FOLDER: Final = "undecided"
"""Folder of the files, beside the certificates."""


@final
@dataclass(kw_only=True)
class Gathered:
    """The rounds of a cell so far, of all commands that asked for it."""

    evidence: Evidence | Compared | None = None
    tokens: int = 0
    rounds: int = 0
    ends: int = 0
    longest: int = 0
    longest_draft: int = 0
    judged: int = 0
    """How often commands have judged the cell so far, without a decision."""
    power: float = 0.0
    """At the last look."""
    wanted: int = 0
    """Tokens that would show each planted bias, about; 0: unknown."""
    stats: EngineStats = field(default_factory=EngineStats)
    """The engine's counters over all of these rounds."""
    seconds: float = 0.0

    def plus(
        self, found: Sequence[Sampled], *, ends: Collection[int] | None, stats: EngineStats
    ) -> None:
        """Adds a round; `ends` are the tokens that end a request, if known."""
        self.stats += stats
        self.tokens += sum(len(s.tokens) for s in found)
        self.rounds += 1
        self.ends += sum(s.ended_wrongly(ends) for s in found)
        self.longest = max([self.longest, *(len(s.tokens) for s in found)])
        drafts = (place.length for s in found for place in s.places)
        self.longest_draft = max([self.longest_draft, *drafts])

    def looked(self, *, power: float, wanted: int) -> None:
        """Notes a look. A number of tokens once stated grows only where they did not suffice."""
        stated = self.wanted if self.wanted > self.tokens else wanted
        self.power, self.wanted = power, min(wanted or stated, stated)

    def leave(self, path: Path, *, after: Cell) -> None:
        """Keeps what was gathered in a file; of a cell that is decided nothing stays."""
        if after.verdict is not Verdict.INCONCLUSIVE:
            path.unlink(missing_ok=True)
            return
        self.judged += 1
        with replacing(path) as unfinished:  # a kill never leaves half a file
            unfinished.write_bytes(pickle.dumps(self))


def read(path: Path | None) -> Gathered:
    """Reads a file; nothing was gathered where there is none, or it is damaged."""
    try:
        return pickle.loads(path.read_bytes()) if path is not None else Gathered()
    except Exception:  # pickle raises whatever damaged bytes lead to
        return Gathered()


def path_of(folder: Path, *, label: str, about: Sequence[Any]) -> Path:
    """Returns the file of a cell, by a digest of what decides its samples and of its classes."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for code in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(code.read_bytes())
    return folder / FOLDER / f"{label}-{digest.hexdigest()[:12]}.pickle"
