"""Audits one drafter in a process of its own: a job as JSON on stdin, lines of JSON on stdout.

A process each, because vLLM as shipped can neither start twice nor survive some of its errors, and
because repairs stay in force for the life of a process.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO, final

from gfcr import registry
from gfcr.audit import weights
from gfcr.audit.drafters import Subject
from gfcr.audit.judge import audit_cell
from gfcr.audit.memory import Learning, remembers
from gfcr.audit.prompts import MAX_TOKENS, PROMPT, Asks, long, ordinary
from gfcr.audit.restless import Restless
from gfcr.certificate.cell import SAMPLES, judged
from gfcr.certificate.record import device_name
from gfcr.certificate.settings import setting_of
from gfcr.engine.vllm import Vllm
from gfcr.speculation.base import Drafter
from gfcr.speculation.draft_model import DraftModel
from gfcr.speculation.online import Online

MAX_LENGTH: Final = 512
"""Longest sequences asked for, where the engine allows longer ones."""


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process audits."""

    model: str
    """Its name, for its prompts."""
    folder: str
    label: str
    drafter: Mapping[str, Any] | None
    engine: Mapping[str, Any]
    """Its spec, see `registry.spec`."""
    settings: tuple[Mapping[str, Any], ...]
    level: float
    max_tokens: int = MAX_TOKENS
    samples: int = SAMPLES
    seed: int = 0


def main() -> None:
    """Runs the job on stdin."""
    job = Job(**json.loads(sys.stdin.read()))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory(prefix="gfcr-audit-") as scratch:
        _run(job, out=out, scratch=Path(scratch))


def _run(job: Job, *, out: TextIO, scratch: Path) -> None:
    from gfcr.audit.target import ModelTarget
    from gfcr.engine.vllm_drafts import pending

    subject = Subject(label=job.label, spec=job.drafter)
    config: Vllm = registry.build("engine", job.engine)
    target, proposal, memory = ModelTarget(job.folder), None, None
    drafter = _drafter(subject, job=job, scratch=scratch)
    steered = Restless(drafter) if drafter is not None and drafter.core is not drafter else drafter
    engine = config.start(model=job.folder, seed=job.seed, drafter=steered)
    if drafter is not None and isinstance(drafter.core, (DraftModel, Online)):
        proposal = ModelTarget(drafter.core.folder)
    # Stock vLLM on a CPU cannot take new weights, which drafters with a memory need.
    if drafter is not None and remembers(drafter) and config.fixes:
        older = ModelTarget(weights.noisy(Path(job.folder), folder=scratch / "older"))
        memory = Learning(engine, drafter=drafter, now=target.weights, older=older.weights)
        proposal = proposal or older
    _say(out, kind="engine", fixes=list(engine.fixes), device=device_name())
    for setting in map(setting_of, job.settings):
        make = long if setting.long else ordinary
        cell = audit_cell(
            engine,
            target=target,
            setting=setting,
            prompts=make(_asks(job, vocab=target.vocab, max_length=engine.max_length)),
            drafter=job.label,
            deterministic=drafter is None or not drafter.sampled,
            proposal=proposal,
            drafts=lambda: pending(engine),
            ends=engine.folder.eos,
            dtype=config.dtype,
            samples=job.samples,
            level=job.level,
            seed=job.seed,
            memory=memory,
            progress=lambda n, p: _say(out, kind="progress", tokens=n, power=p),
        )
        # What says of itself that it is not exact is not called lossless for want of evidence.
        exact = drafter is None or drafter.exact
        _say(out, kind="cell", cell=asdict(judged(replace(cell, exact=exact))))
    engine.close()


def _asks(job: Job, *, vocab: int, max_length: int) -> Asks:
    """Sequences of `MAX_LENGTH` at most, or of what the completions asked for need."""
    return Asks(
        model=job.model,
        vocab=vocab,
        max_length=min(max_length, max(MAX_LENGTH, PROMPT + job.max_tokens)),
        max_tokens=job.max_tokens,
        seed=job.seed,
    )


def _drafter(subject: Subject, *, job: Job, scratch: Path) -> Drafter | None:
    """A model that it lacks is the target with noise."""
    from gfcr import models

    made = ""
    if subject.lacks_model:
        made = str(weights.noisy(Path(job.folder), folder=scratch / "draft"))
    drafter = subject.build(model=made)
    if drafter is not None:
        drafter.fetch(models.resolve)
    return drafter


def _say(out: TextIO, **line: Any) -> None:
    print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main()
