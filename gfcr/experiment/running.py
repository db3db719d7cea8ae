"""Runs one experiment from its resolved parts to its result, resuming where it was stopped."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from typing import Any

from gfcr import models
from gfcr.certificate.certify import recertify
from gfcr.config import CONFIG, Experiment, as_written
from gfcr.engine.base import Engine
from gfcr.engine.server_process import THROUGH
from gfcr.errors import ConfigError
from gfcr.experiment import ending
from gfcr.experiment.check import check, uncorrected
from gfcr.experiment.prepared import Prepared, prepare
from gfcr.experiment.provenance import edited
from gfcr.experiment.resolved import Resolved, resolve
from gfcr.experiment.resumed import card_and_standing, card_to_resume, check_same
from gfcr.experiment.source import SPECULATION, Pause, Progress, RunSource
from gfcr.loop.stream import PromptStream
from gfcr.pipeline import Pipeline
from gfcr.process.cores import apart
from gfcr.process.environment import load
from gfcr.process.signals import Heard, interruptible
from gfcr.schedule.ahead import Ahead
from gfcr.tracking import ended
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import locked, refuse_if_running
from gfcr.tracking.rollouts import read_rollouts, spelling
from gfcr.train.base import BatchSource, TrainJob, TrainResult
from gfcr.values.disk import set_aside, write_atomic


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The arguments of `run`, and the signals that have come since."""

    fresh: bool
    accept_data: bool
    until: Pause | None
    heard: Heard
    watch: Callable[[Progress], None]
    say: Callable[[str], None]


def run(
    config: Experiment,
    *,
    fresh: bool = False,
    accept_data: bool = False,
    until: Pause | None = None,
    patience_s: float = 0.0,
    watch: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Runs an experiment, or resumes it, or returns the result it already has.

    Args:
        config: the experiment.
        fresh: forget an earlier run of the same experiment and start over.
        accept_data: resume although prompts, model or code of the user's own have changed.
        until: where to stop for now, with status `paused`; a later call continues.
        patience_s: how long to wait for another process that runs it, in seconds.
        watch: called after each update.
        say: called with a line on what happens next.

    Raises:
        ConfigError: `until` is never reached, for nothing is evaluated on the way.
        FolderInUse: another process runs it.
        FolderLost: its lock file was removed while it ran; it stopped.
        StoreError: the disk is full, or cannot be written to.
    """
    resolved = resolve(config)
    check(resolved)
    if until is not None and not config.evaluation.every:
        raise ConfigError(
            f"until {until}: a run stops for now at a held-out evaluation, and evaluation.every=0 "
            "makes none before its end. Give the updates between two, evaluation.every=10."
        )
    with interruptible() as heard, locked(resolved.folder, patience_s=patience_s) as still_held:
        records = RunFolder(resolved.folder, guard=still_held)
        # Where somebody removed the lock file, the lock just taken is another than the holder's.
        refuse_if_running(resolved.folder)
        try:
            asked = _Asked(
                fresh=fresh, accept_data=accept_data, until=until, heard=heard, watch=watch, say=say
            )
            return _open(resolved, records=records, asked=asked)
        except Exception as error:
            if (problem := ending.disk_problem(error, folder=resolved.folder)) is not None:
                raise problem from error
            raise


def _open(resolved: Resolved, *, records: RunFolder, asked: _Asked) -> dict[str, Any]:
    until, say = asked.until, asked.say
    if asked.fresh and resolved.folder.exists():
        set_aside(resolved.folder, word="old")
    records.drop_halves()
    if (done := records.result()) is not None and done.get("status") == "finished":
        say(f"already finished: {resolved.folder} (--fresh runs it again)")
        for name in (changed := edited(records.card(), now=resolved.code())):
            say(f"{name} was edited since: this is the result of the code before")
        if records.status in (None, "running"):  # killed before the last file was written
            ended.end(records, status="finished", result=done)
        done = {**done, "certificate": recertify(records)}
        resolved.tracker.start(records.card(), folder=resolved.folder)
        resolved.tracker.finish(status="finished", result=done)
        # The store has the result as the run wrote it, which its digest is of.
        return done | ({"edited": changed} if changed else {})
    if until is not None and done is not None and _has_reached(done, until=until):
        say(f"already {until}: {resolved.folder}")
        return done
    try:
        return _run(resolved, records=records, asked=asked)
    except KeyboardInterrupt as error:
        # Met outside of training.
        if records.exists() and records.status not in ("paused", "finished"):
            ending.break_off(resolved, records=records, source=None, error=error)
        raise


def _run(resolved: Resolved, *, records: RunFolder, asked: _Asked) -> dict[str, Any]:
    config, held, say = resolved.config, card_to_resume(records), asked.say
    model = _model(resolved, say=say)
    prepared = prepare(resolved, model=model)
    say(prepared.about)
    if warning := uncorrected(resolved):
        say(warning)
    given = prepared.tags(resolved, model=model)
    check_same(resolved, given=given, held=held, accepted=asked.accept_data, say=say)
    card, stands = card_and_standing(resolved, given=given, held=held)
    records.create(card)
    write_atomic(resolved.folder / CONFIG, as_written(config))
    stands.keep(resolved.folder)
    source: RunSource | None = None
    with ExitStack() as stack:
        try:
            if resolved.schedule.overlaps:
                placed = THROUGH in os.environ  # by whoever started this process
                stack.enter_context(apart(servers=0 if placed else resolved.engine.servers))
            say("starting the engine")
            engine = stack.enter_context(closing(_engine(resolved, model=model)))
            # It is closed before the engine, out of which it takes what is in flight.
            pipeline = _pipeline(resolved, prepared, engine=engine, records=records)
            stack.enter_context(closing(pipeline))
            source = RunSource(
                pipeline,
                of=resolved,
                records=records,
                question=prepared.question,
                pause=asked.until,
                watch=asked.watch,
            )
            records.set_status("running")
            with _scheduled(resolved, work=source) as fed:
                trained = _train(resolved, source=fed, model=model, asked=asked, records=records)
            # A library may have swallowed the interrupt, and the run would count as finished.
            asked.heard.check()
            result = _result(resolved, source=source, pipeline=pipeline, trained=trained)
            result["certificate"] = stands.word
            # A folder that another process has taken meanwhile gets no result of this one.
            records.guard()
        except BaseException as error:
            ending.break_off(resolved, records=records, source=source, error=error)
            raise
    ending.end(resolved, records=records, result=result)
    return result


def _has_reached(done: Mapping[str, Any], *, until: Pause) -> bool:
    curve = done.get("curve")
    return done.get("status") == "paused" and bool(curve) and until.reached(curve[-1])


def _train(
    resolved: Resolved, *, source: BatchSource, model: str, asked: _Asked, records: RunFolder
) -> TrainResult:
    asked.say(f"training {resolved.config.name} (seed {resolved.config.seed}) in {resolved.folder}")
    job = TrainJob(
        model=model,
        source=source,
        loss=resolved.strategy.loss,
        correction=resolved.strategy.correction,
        seed=resolved.config.seed,
        folder=resolved.folder / "checkpoints",
        sampling=resolved.config.sampling,
        should_stop=asked.heard.asked,
        record=records.add_corrections,
        say=asked.say,
    )
    return resolved.trainer.train(job)


def _scheduled(resolved: Resolved, *, work: RunSource) -> AbstractContextManager[BatchSource]:
    schedule = resolved.schedule
    if not schedule.overlaps:
        return nullcontext(work)
    last, beside = resolved.trainer.max_steps, resolved.engine.beside
    return Ahead(work, schedule=schedule, last=last, beside=beside)


def _result(
    resolved: Resolved, *, source: RunSource, pipeline: Pipeline, trained: TrainResult
) -> dict[str, Any]:
    memory = source.memory
    # Before the last evaluation takes seconds; and what is made ahead is still learned from.
    ahead = pipeline.step > trained.updates or pipeline.making.opened
    stopped_by = None if ahead else source.spent()
    if not memory.curve or memory.curve[-1][0] != trained.updates:
        source.evaluate(update=trained.updates)
    totals = memory.totals
    # The fake engine's seconds are simulated, and may be more than passed.
    step_s, generate_s = (totals.get(f"time/{part}_s", 0.0) for part in ("step", "generate"))
    assert memory.before is not None and memory.latest is not None
    # Neither its updates nor its budget are used up.
    more = trained.updates < resolved.trainer.max_steps and stopped_by is None
    bounds = resolved.task.reward_range
    return {
        **ending.identity(resolved),
        "status": "paused" if more and source.paused() else "finished",
        "updates": trained.updates,
        "resumed_from": trained.resumed_from,
        "stopped_by": stopped_by,
        "wall_s": source.elapsed_s,
        "heldout": {
            "asked": source.question.record(),
            "before": asdict(memory.before),
            "after": asdict(memory.latest),
        },
        "reward_range": bounds and [bound if isfinite(bound) else None for bound in bounds],
        "tokens": pipeline.tokens(),
        "time": {k.removeprefix("time/"): v for k, v in totals.items() if k.startswith("time/")},
        "forward_passes": totals.get("forward_passes") or None,  # not all engines count them
        "speculation": {k: totals.get(f"speculation/{k}", 0.0) for k in SPECULATION},
        "verifier_calls": memory.verifier_calls,
        "rollout_tokens_per_s": totals.get("rollout_tokens", 0.0)
        / max(totals.get("time/rollout_s", 0.0), 1e-9),
        "r_gen": generate_s / max(step_s, generate_s, 1e-9),
        "sync_share": totals.get("time/sync_s", 0.0) / max(step_s, 1e-9),
        "curve": [list(point) for point in memory.curve],
        "unscorable": list(memory.unscorable),
        "warnings": [*filter(None, [uncorrected(resolved)]), *memory.warned],
        "model": trained.model,
        "folder": str(resolved.folder),
    }


def _model(resolved: Resolved, *, say: Callable[[str], None]) -> str:
    if not (resolved.engine.needs_model or resolved.trainer.needs_model):
        return resolved.config.model
    say(f"model {resolved.config.model}")
    return str(models.resolve(resolved.config.model))


def _pipeline(
    resolved: Resolved, prepared: Prepared, *, engine: Engine, records: RunFolder
) -> Pipeline:
    config, problems, codec = resolved.config, prepared.problems, prepared.codec
    return Pipeline(
        resolved.strategy,
        engine=engine,
        task=resolved.task,
        train=problems.train,
        heldout=problems.heldout,
        stream=PromptStream(problems.train, seed=None) if problems.in_order else None,
        records=read_rollouts,
        sink=partial(records.add_rollouts, spell=spelling(codec.decode)),
        codec=codec,
        prompts=config.prompts,
        sampling=config.sampling,
        seed=config.seed,
    )


def _engine(resolved: Resolved, *, model: str) -> Engine:
    drafter = resolved.strategy.drafter
    if drafter is not None:
        drafter.fetch(models.resolve)
    # Before the run's clock: a forked trial has them by then.
    for part in (resolved.engine, resolved.trainer, resolved.tracker):
        load(part.libraries)
    return resolved.engine.start(model=model, seed=resolved.config.seed, drafter=drafter)
