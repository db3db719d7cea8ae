"""How long strategies take to a held-out reward, over what stock TRL with vLLM takes.

Seed by seed, stock TRL and then each arm, every one in a process of its own, so that a pair meets
the machine in the same mood. Seconds run from the first update (engine and trainer are up), without
evaluations. Where a run is there says `curve.reached`: one evaluation may be at the target by luck.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

from benchmarks import stock_trl
from benchmarks.limits import ratio_limits
from gfcr import config as configs
from gfcr import experiment
from gfcr.errors import ConfigError
from gfcr.launch.base import Job
from gfcr.launch.local import Local
from gfcr.process.worker import Worker, no_answer
from gfcr.stats import Interval
from gfcr.sweep.study import Study, Trial
from gfcr.tracking.curve import Point, floored, reached
from gfcr.tracking.folder import RunFolder
from gfcr.values.disk import write_atomic

STOCK = "stock TRL"
Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run had spent when it came to the target, or, not there, at its end."""

    there: bool
    updates: float
    tokens: float
    seconds: float
    wall_s: float
    """Seconds of the whole run, start-up and evaluations included."""
    score: float
    """The last held-out reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One arm's runs, or stock TRL's, by seed."""

    arm: str
    spent: Mapping[int, Spent]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """An arm's cost over stock TRL's: geometric mean over seeds, with its 95 % t interval of logs.

    Its limits are NaN where there is one ratio, and 0 and infinity where too few are all equal.
    `bound` where stock TRL was not there under some seed: its cost at its end stands for it, and
    the true ratio is smaller.
    """

    interval: Interval | None
    by_seed: Mapping[int, float]
    bound: bool


def measure(study: Study, *, target: float, say: Say = lambda line: None) -> list[Measured]:
    """Runs what has not finished, and reads what all runs spent; stock TRL is the first.

    Raises:
        ConfigError: the study evaluates only at the end, the target is met before training, or
            stock TRL cannot be run as the first arm is, see `stock_trl.check`.
    """
    first = study.trials[0].config
    stock_trl.check(experiment.resolve(first))
    if not first.evaluation.every:
        raise ConfigError(
            "evaluation.every=0 measures at the end only: give the updates between evaluations."
        )
    size = group_size(study)
    found: dict[str, dict[int, Spent | str]] = {}
    for seed in study.seeds:
        trials = [trial for trial in study.trials if trial.config.seed == seed]
        say(f"{STOCK}/{seed}")
        found.setdefault(STOCK, {})[seed] = stock(trials[0], group_size=size, target=target)
        for trial in trials:
            say(trial.name)
            answer = _run(trial)
            found.setdefault(trial.config.name, {})[seed] = (
                spent_by(course(trial.folder), target=target, wall_s=answer["wall_s"])
                if answer["status"] == "finished"
                else str(answer.get("error", answer["status"]))
            )
    return [
        Measured(
            arm=arm,
            spent={seed: s for seed, s in by_seed.items() if isinstance(s, Spent)},
            failed={seed: s for seed, s in by_seed.items() if isinstance(s, str)},
        )
        for arm, by_seed in found.items()
    ]


def group_size(study: Study) -> int:
    """Rollouts a prompt in the study's baseline, which are stock TRL's too."""
    trial = next(t for t in study.trials if t.config.name == study.baseline)
    strategy = experiment.resolve(trial.config).strategy
    return strategy.group_size


def stock(trial: Trial, *, group_size: int, target: float) -> Spent | str:
    """Runs stock TRL as this trial's experiment says, or reads what it left; an error is words."""
    config = replace(trial.config, arm="stock-trl", strategy={"name": "grpo"})
    folder = trial.folder.parent.parent / "stock-trl" / f"seed-{config.seed}"
    spec = {
        "experiment": configs.as_dict(config),
        "folder": str(folder),
        "group_size": group_size,
        "target": target,
        "ends": "two evaluations there",
    }
    answer = _kept(folder, spec=spec)
    if answer is None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "spec.json", json.dumps(spec, indent=1, sort_keys=True))
        answer = _child(folder)
        write_atomic(folder / "result.json", json.dumps(answer, indent=1))
    if answer["status"] != "finished":
        return str(answer["error"])
    curve: list[Point] = [tuple(point) for point in answer["curve"]]
    return spent_by(curve, target=target, wall_s=answer["wall_s"])


def course(folder: Path) -> list[Point]:
    """A gfcr run's curve, its seconds counted from the first update and without evaluations."""
    records = RunFolder(folder)
    result = records.result() or {}
    key = "heldout/seconds"
    aside = {m.step: m.metrics[key] for m in records.metrics() if key in m.metrics}
    curve = floored(result)
    begun = curve[0][2]
    evaluating = accumulate([0.0, *(aside[int(point[0])] for point in curve[1:])])
    return [
        (update, tokens, seconds - begun - spent, score)
        for (update, tokens, seconds, score), spent in zip(curve, evaluating, strict=True)
    ]


def spent_by(curve: Sequence[Point], *, target: float, wall_s: float) -> Spent:
    """Reads what was spent when the target was reached, see `curve.reached`.

    Raises:
        ConfigError: it is met before training: there is nothing to compare.
    """
    if curve[0][3] >= target:
        raise ConfigError(
            f"target={target:g} is met before the first update (held-out reward "
            f"{curve[0][3]:.3f}): give a higher one."
        )
    point = reached(curve, target=target)
    updates, tokens, seconds, _ = point or curve[-1]
    return Spent(
        there=point is not None,
        updates=updates,
        tokens=tokens,
        seconds=seconds,
        wall_s=wall_s,
        score=curve[-1][3],
    )


def ratio(arm: Measured, *, over: Measured, of: Callable[[Spent], float]) -> Ratio:
    """Compares an arm with stock TRL, paired by seed."""
    seeds = [seed for seed in arm.spent if seed in over.spent]
    by_seed = {s: of(arm.spent[s]) / of(over.spent[s]) for s in seeds if arm.spent[s].there}
    whole = len(by_seed) == len({*arm.spent, *arm.failed, *over.failed})
    return Ratio(
        interval=Interval(**ratio_limits([*by_seed.values()])) if whole else None,
        by_seed=by_seed,
        bound=any(not over.spent[seed].there for seed in by_seed),
    )


def typical(measured: Measured) -> dict[str, Any]:
    """Medians over the seeds that came to the target."""
    there = [s for s in measured.spent.values() if s.there]
    return {
        "reached": len(there),
        "runs": len(measured.spent) + len(measured.failed),
        "seconds": median(s.seconds for s in there) if there else None,
        "tokens": median(s.tokens for s in there) if there else None,
        "updates": median(s.updates for s in there) if there else None,
        "score": fmean(s.score for s in measured.spent.values()) if measured.spent else None,
        "failed": dict(measured.failed),
    }


def _run(trial: Trial) -> Mapping[str, Any]:
    job = Job(name=trial.name, config=configs.as_dict(trial.config), folder=trial.folder)
    running = Local(parallel=1).run([job], begin=lambda job: None, watch=lambda job: None)
    return next(running).result


def _kept(folder: Path, *, spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of the same run, made before."""
    files = (folder / "spec.json", folder / "result.json")
    if not all(file.exists() for file in files):
        return None
    held, answer = (json.loads(file.read_text()) for file in files)
    same = held == json.loads(json.dumps(spec)) and answer["status"] == "finished"
    return answer if same else None


def _child(folder: Path) -> dict[str, Any]:
    worker = Worker("benchmarks.stock_trl", arguments=[str(folder / "spec.json")])
    lines = [*worker.lines(log=folder / "log")]
    try:
        return json.loads(lines[-1])
    except (json.JSONDecodeError, IndexError):
        return {"status": "failed", "error": no_answer(worker.said, code=worker.code)}
