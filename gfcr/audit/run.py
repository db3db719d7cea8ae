"""Audits many drafters under many settings, a process per drafter, and writes the certificates."""

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol

from gfcr import models, registry
from gfcr.audit.drafters import Subject
from gfcr.audit.plan import Plan
from gfcr.certificate import record as certificate
from gfcr.certificate import sources
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.settings import Setting
from gfcr.process.worker import Worker


class Watch(Protocol):
    """Follows the progress of an audit."""

    def begin(self, drafter: str, setting: str) -> None:
        """Called when a cell begins."""
        ...

    def progress(self, *, tokens: int, power: float, wanted: int) -> None:
        """Called with the tokens sampled, the power at the last look, and the tokens wanted."""
        ...

    def end(self, cell: Cell) -> None:
        """Called when the cell has ended."""
        ...


def run(plan: Plan, *, watch: Watch) -> Iterator[certificate.Certificate]:
    """Audits drafter after drafter and yields a certificate for each."""
    fingerprint = f"{plan.model} {models.digest_of(plan.folder)}"
    engine = registry.spec("engine", plan.audited)
    for subject in plan.drafters:
        held = _Drafter(plan, subject=subject, watch=watch)
        cells = held.cells()
        part = subject.build()
        drafter = registry.spec("drafter", part) if part is not None else None
        yield certificate.Certificate(
            subject=certificate.essence(engine, drafter, model=plan.model),
            drafter=subject.label,
            model=fingerprint,
            device=held.device,
            fixes=tuple(held.fixes),
            versions=certificate.now_versions(),
            sources=sources.digest_of(engine, drafter),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            cells=tuple(cells),
        )


class _Drafter:
    """Audits one drafter's cells. If its process dies in a cell, a new one does the next cell."""

    def __init__(self, plan: Plan, *, subject: Subject, watch: Watch) -> None:
        self._plan, self._subject, self._watch = plan, subject, watch
        self._drafter = subject.label
        self.fixes: list[str] = []
        self.device = "unknown"
        self._last_words = ""

    def cells(self) -> list[Cell]:
        settings = self._plan.settings
        done: list[Cell] = []
        while len(done) < len(settings):
            started = len(done)
            done += self._process(settings[started:])
            if len(done) < len(settings):
                self._watch.end(lost := self._lost(settings[len(done)]))
                done.append(lost)
        return done

    def _process(self, settings: Sequence[Setting]) -> Iterator[Cell]:
        told = pickle.dumps((self._plan, self._subject, settings))
        worker = Worker("gfcr.audit.worker")
        said = worker.lines(told)
        with closing(said):
            yield from self._read(said, names=[s.name for s in settings])
        self._last_words = worker.said

    def _read(self, lines: Iterable[bytes], *, names: Sequence[str]) -> Iterator[Cell]:
        ahead = iter(names)
        self._watch.begin(self._drafter, next(ahead))
        for line in lines:
            said = json.loads(line)
            if said["kind"] == "engine":
                self.fixes, self.device = said["fixes"], said["device"]
            elif said["kind"] == "progress":
                self._watch.progress(**{k: said[k] for k in ("tokens", "power", "wanted")})
            else:
                cell = Cell(**said["cell"] | {"verdict": Verdict(said["cell"]["verdict"])})
                self._watch.end(cell)
                yield cell
                following = next(ahead, None)
                if following is not None:
                    self._watch.begin(self._drafter, following)

    def _lost(self, setting: Setting) -> Cell:
        last = self._last_words.splitlines()[-1:] or ["it ended without a word"]
        return Cell(
            drafter=self._drafter,
            setting=setting.name,
            law=setting.law,
            verdict=Verdict.INCONCLUSIVE,
            reason=f"the engine failed: {last[0][:300]}",
            level=self._plan.level,
        )
