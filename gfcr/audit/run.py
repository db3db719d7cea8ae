"""Audits many drafters under many settings, a process per drafter, and writes the certificates."""

import json
import pickle
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol, final

from gfcr import models, registry
from gfcr.audit.drafters import Subject
from gfcr.audit.plan import Plan
from gfcr.certificate import record as certificate
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.settings import Setting
from gfcr.process.worker import Worker


class Watch(Protocol):
    """Follows the progress of an audit."""

    def begin(self, drafter: str, setting: str) -> None:
        """Called when a cell begins."""

    def progress(self, *, tokens: int, power: float, wanted: int) -> None:
        """Called with the tokens sampled, the power at the last look, and the tokens wanted."""

    def end(self, cell: Cell) -> None:
        """Called when the cell has ended."""


def run(plan: Plan, *, watch: Watch) -> Iterator[certificate.Certificate]:
    """Audits drafter after drafter and yields a certificate for each."""
    fingerprint = f"{plan.model} {models.digest_of(plan.folder)}"
    engine = registry.spec("engine", plan.audited)
    for subject in plan.drafters:
        held = _Drafter(plan, subject=subject, watch=watch)
        cells = tuple(held.cells())
        drafter = subject.whole
        yield certificate.Certificate(
            subject=certificate.essence(engine, drafter, model=plan.model),
            drafter=subject.label,
            model=fingerprint,
            device=held.device,
            fixes=tuple(held.fixes),
            versions=certificate.now_versions(),
            sources=certificate.digest_of(engine, drafter),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            cells=cells,
        )


@final
class _Drafter:
    """Audits one drafter's cells. If its process dies in a cell, a new one does the next cell."""

    def __init__(self, plan: Plan, *, subject: Subject, watch: Watch) -> None:
        self._plan, self._subject, self._watch = plan, subject, watch
        self.fixes: list[str] = []
        self.device = "unknown"

    def cells(self) -> Iterator[Cell]:
        waiting = list(self._plan.settings)
        while waiting:
            worker = Worker("gfcr.audit.worker")
            told = pickle.dumps((self._plan, self._subject, waiting))
            with closing(worker.lines(told)) as lines:
                while waiting and (cell := self._heard(lines, setting=waiting[0])):
                    del waiting[0]
                    yield self._ended(cell)
                list(lines)  # it ends by itself
            if waiting:
                yield self._ended(self._lost(waiting.pop(0), said=worker.said))

    def _heard(self, lines: Iterator[bytes], *, setting: Setting) -> Cell | None:
        """Reads what the process says until a cell has ended; None where the process has."""
        self._watch.begin(self._subject.label, setting.name)
        for line in lines:
            said = json.loads(line)
            if said["kind"] == "engine":
                self.fixes, self.device = said["fixes"], said["device"]
            elif said["kind"] == "progress":
                self._watch.progress(**{k: said[k] for k in ("tokens", "power", "wanted")})
            else:
                return Cell(**said["cell"] | {"verdict": Verdict(said["cell"]["verdict"])})
        return None

    def _ended(self, cell: Cell) -> Cell:
        self._watch.end(cell)
        return cell

    def _lost(self, setting: Setting, *, said: str) -> Cell:
        last = said.splitlines()[-1:] or ["it ended without a word"]
        return Cell(
            drafter=self._subject.label,
            setting=setting.name,
            law=setting.law,
            reason=f"the engine failed: {last[0][:300]}",
            level=self._plan.level,
        )
