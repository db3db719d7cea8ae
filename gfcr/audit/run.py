"""Audits many drafters under many settings, a process per drafter, and writes the certificates."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, final

from gfcr import registry
from gfcr.audit.drafters import Subject
from gfcr.audit.prompts import MAX_TOKENS
from gfcr.audit.worker import MAX_LENGTH, Job
from gfcr.certificate import record as certificate
from gfcr.certificate import sources
from gfcr.certificate.cell import LEVEL, SAMPLES, Cell, Verdict
from gfcr.certificate.settings import Setting
from gfcr.engine.vllm import Vllm
from gfcr.process.worker import Worker


class Watch(Protocol):
    """Told how the audit goes."""

    def begin(self, drafter: str, setting: str) -> None:
        """A cell begins."""
        ...

    def progress(self, *, tokens: int, power: float) -> None:
        """It has sampled so many tokens, which give this power."""
        ...

    def end(self, cell: Cell) -> None:
        """It has ended."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to audit."""

    model: str
    folder: Path
    drafters: Sequence[Subject]
    settings: Sequence[Setting]
    engine: Vllm
    max_tokens: int = MAX_TOKENS
    samples: int = SAMPLES
    seed: int = 0

    @property
    def level(self) -> float:
        """Of each cell: the audit's, shared out."""
        return LEVEL / (len(self.drafters) * len(self.settings))


def engine_for(folder: Path) -> Vllm:
    """The engine that is audited when no run names its own; long contexts are near its limit."""
    config = json.loads((folder / "config.json").read_text())
    limit = (config.get("text_config") or config).get("max_position_embeddings")
    return Vllm(max_length=min(limit or MAX_LENGTH, MAX_LENGTH), max_running=64, kv_cache_gib=0.5)


def run(plan: Plan, *, watch: Watch) -> Iterator[certificate.Certificate]:
    """Audits drafter after drafter and yields a certificate for each."""
    fingerprint = f"{plan.model} {_fingerprint(plan.folder)}"
    engine = registry.spec("engine", plan.engine)
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
            made=certificate.now(),
            cells=tuple(cells),
        )


class _Drafter:
    """One drafter's cells. A process that dies takes its cell along; the next goes on after it."""

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
        plan = self._plan
        job = Job(
            model=plan.model,
            folder=str(plan.folder),
            label=self._drafter,
            drafter=self._subject.spec,
            engine=registry.spec("engine", plan.engine),
            settings=tuple(asdict(s) for s in settings),
            level=plan.level,
            max_tokens=plan.max_tokens,
            samples=plan.samples,
            seed=plan.seed,
        )
        worker = Worker("gfcr.audit.worker")
        said = worker.lines(json.dumps(asdict(job)).encode())
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
                self._watch.progress(tokens=said["tokens"], power=said["power"])
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


def _fingerprint(folder: Path) -> str:
    """Of the configuration and the weights."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
