"""Audits one drafter in a process of its own: a job as JSON on stdin, lines of JSON on stdout.

A process each, because vLLM as shipped can neither start twice nor survive some of its errors, and
because repairs stay in force for the life of a process.
"""

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import Any, TextIO, final

from gfcr.audit.cell import SAMPLES
from gfcr.audit.drafters import DRAFTERS, speculative
from gfcr.audit.judge import audit_cell
from gfcr.audit.prompts import long, ordinary
from gfcr.audit.settings import SETTINGS


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process audits."""

    model: str
    """Its name, for its prompts."""
    folder: str
    drafter: str
    settings: tuple[str, ...]
    level: float
    samples: int = SAMPLES
    fixes: bool = True
    max_length: int
    seed: int = 0


def main() -> None:
    """Runs the job on stdin."""
    job = Job(**json.loads(sys.stdin.read()))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory(prefix="gfcr-audit-") as scratch:
        _run(job, out=out, scratch=scratch)


def _run(job: Job, *, out: TextIO, scratch: str) -> None:
    from gfcr.audit.target import ModelTarget
    from gfcr.engine.vllm import Vllm
    from gfcr.engine.vllm_drafts import pending

    config = Vllm(
        max_length=job.max_length,
        max_running=64,
        kv_cache_gib=0.5,
        speculative=speculative(job.drafter, model=job.folder, scratch=scratch),
        fixes=job.fixes,
    )
    target = ModelTarget(job.folder)
    engine = config.start(model=job.folder, seed=job.seed)
    _say(out, kind="engine", fixes=list(engine.fixes), device=_device())
    for name in job.settings:
        setting = SETTINGS[name]
        make = long if setting.long else ordinary
        cell = audit_cell(
            engine,
            target=target,
            setting=setting,
            prompts=make(job.model, vocab=target.vocab, max_length=job.max_length, seed=job.seed),
            drafter=job.drafter,
            deterministic=DRAFTERS[job.drafter].deterministic,
            drafts=lambda: pending(engine),
            samples=job.samples,
            level=job.level,
            seed=job.seed,
            progress=lambda n, p: _say(out, kind="progress", tokens=n, power=p),
        )
        _say(out, kind="cell", cell=asdict(cell))
    engine.close()


def _device() -> str:
    import torch

    library: Any = torch
    if library.cuda.is_available():
        return str(library.cuda.get_device_name())
    return f"{platform.machine()} CPU"


def _say(out: TextIO, **line: Any) -> None:
    print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main()
