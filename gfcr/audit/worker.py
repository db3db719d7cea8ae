"""Audits one drafter in a process of its own: what to audit on stdin, lines of JSON on stdout.

A process each, because vLLM as shipped can neither start twice nor survive some of its errors, and
because repairs stay in force for the life of a process.
"""

import json
import os
import pickle
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any, TextIO

from gfcr import models, registry
from gfcr.audit.asked import Asked
from gfcr.audit.drafters import Subject, make_restless
from gfcr.audit.judge import audit_cell
from gfcr.audit.kept import path_of
from gfcr.audit.memory import Learning, remembers
from gfcr.audit.plan import MAX_LENGTH, Plan
from gfcr.audit.prompts import LARGE, PROMPT, long, ordinary
from gfcr.audit.target import ModelTarget, noisy
from gfcr.certificate import record
from gfcr.certificate.cell import judged
from gfcr.certificate.settings import Setting
from gfcr.speculation.base import Drafter
from gfcr.speculation.draft_model import DraftModel
from gfcr.speculation.online import Online

MINUTES = 7
"""Of a cell of a large vocabulary: two take a quarter of an hour with the start of the engine."""


def main() -> None:
    """Audits the subject on stdin under the settings on stdin: all of a plan, or its rest."""
    plan, subject, settings = pickle.load(sys.stdin.buffer)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory(prefix="gfcr-audit-") as scratch:
        _run(plan, subject, settings, out=out, scratch=Path(scratch))


def _run(
    plan: Plan, subject: Subject, settings: Sequence[Setting], *, out: TextIO, scratch: Path
) -> None:
    folder, config = plan.folder, plan.audited
    target, proposal, memory = ModelTarget(folder), None, None
    drafter = _drafter(subject, plan=plan, scratch=scratch)
    started: Any = config.start(model=str(folder), seed=plan.seed, drafter=drafter)
    with closing(started) as engine:
        if drafter is not None and isinstance(drafter.core, (DraftModel, Online)):
            proposal = ModelTarget(drafter.core.folder)
        # Stock vLLM on a CPU cannot take new weights, which drafters with a memory need.
        if drafter is not None and remembers(drafter) and config.fixes:
            older = ModelTarget(noisy(folder, folder=scratch / "older"))
            memory = Learning(engine, drafter=drafter, now=target.weights, older=older.weights)
            proposal = proposal or older
        _say(out, kind="engine", fixes=list(engine.fixes), device=record.device_name())
        # As long as `MAX_LENGTH` at most, or as the completions asked for need.
        max_length = min(engine.max_length, max(MAX_LENGTH, PROMPT + plan.max_tokens))
        room = {"vocab": target.vocab, "max_length": max_length, "seed": plan.seed}
        seconds = 60 * (plan.minutes or (MINUTES if target.vocab >= LARGE else inf))
        for setting in settings:
            prompts = (
                long(plan.model, **room)
                if setting.long
                else ordinary(plan.model, max_tokens=plan.max_tokens, **room)
            )
            asked = Asked(
                target=target,
                proposal=proposal,
                setting=setting,
                prompts=prompts,
                drafter=subject.label,
                deterministic=drafter is None or not drafter.sampled,
                **_seen(engine),
                ends=engine.folder.eos,
                dtype=config.dtype,
                samples=plan.samples,
                seconds=seconds,
                kept=_kept(plan, subject, setting, fixes=engine.fixes) if seconds < inf else None,
                level=plan.level,
                seed=plan.seed,
            )
            cell = audit_cell(
                engine,
                asked=asked,
                memory=memory,
                progress=lambda n, p, w: _say(out, kind="progress", tokens=n, power=p, wanted=w),
            )
            # What says of itself that it is not exact is not called lossless for want of evidence.
            exact = drafter is None or drafter.exact
            _say(out, kind="cell", cell=asdict(judged(replace(cell, exact=exact))))


def _drafter(subject: Subject, *, plan: Plan, scratch: Path) -> Drafter | None:
    """Returns the subject's drafter, or None without one; it never pauses for long."""
    # A model that it lacks is the target with noise.
    made = noisy(plan.folder, folder=scratch / "draft") if subject.lacks_model else ""
    drafter = subject.fetched(model=str(made))
    if drafter is not None and drafter.core is not drafter:
        make_restless(drafter)
    return drafter


def _kept(plan: Plan, subject: Subject, setting: Setting, *, fixes: Sequence[str]) -> Path | None:
    """Returns the file of what an undecided cell gathered: another one if anything differs.

    Without seeds of requests, an engine that starts again repeats its randomness: nothing is kept.
    """
    if plan.keep is None or not setting.seeded:
        return None
    engine, drafter = registry.spec("engine", plan.audited), subject.whole
    what = record.essence(engine, drafter, model=plan.model), models.digest_of(plan.folder)
    under = asdict(record.Circumstances.here(engine, drafter)), fixes
    about = what, under, asdict(setting), plan.max_tokens, plan.seed
    return path_of(plan.keep, label=f"{subject.label}-{setting.name}", about=about)


def _seen(engine: Any) -> dict[str, Any]:
    """Returns what shows verified drafts: before each step here, afterwards of a server."""
    from gfcr.engine.server_loop import ServerEngine
    from gfcr.engine.vllm_drafts import pending

    if isinstance(engine, ServerEngine):
        engine.fleet.traced = True
        return {"records": engine.fleet.steps}
    return {"drafts": lambda: pending(engine)}


def _say(out: TextIO, **line: Any) -> None:
    print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main()
