"""`gfcr bench jigsaw`: a study's trials under each scheduler, and what they should take.

A round is the trials of one seed, run by every scheduler in turning order. What pairs of sub-stages
cost each other is measured before, in a round of its own in which they meet at random.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from benchmarks.jigsaw.fitting import fitted
from benchmarks.jigsaw.predicted import predicted
from benchmarks.rounds import weights
from gfcr import config as configs
from gfcr import sweep
from gfcr.cluster.jigsaw.machine import Action, Machine, State
from gfcr.cluster.jigsaw.substages import Slowdown
from gfcr.errors import ConfigError, GfcrError
from gfcr.launch import slowdowns
from gfcr.launch.base import Job
from gfcr.launch.jigsaw import Jigsaw, Name
from gfcr.launch.lending import Lent
from gfcr.seeds import rng
from gfcr.tracking.rollouts import read_rollouts

PROBES: Final = 6
"""Rounds in which sub-stages meet at random."""
ARMS: Final[tuple[Name, ...]] = ("serial", "unmanaged", "greedy", "look_ahead")


@final
@dataclass(frozen=True, kw_only=True)
class Round:
    """The trials of a seed under one scheduler."""

    scheduler: Name
    seed: int
    makespan_s: float
    """Seconds from the first process's start to the last one's end."""
    predicted_s: float
    """What the sub-stages of the serial round should take under this scheduler."""
    rollouts: Mapping[str, str]
    """The digest of the tokens of each rollout of each trial."""
    models: Mapping[str, Path]
    """Folder of each trial's final model, while this is measured."""
    apart: Mapping[str, float]
    """The largest difference of a weight of each trial from the serial one's."""
    lent: Sequence[Lent]


@final
@dataclass(kw_only=True)
class Probing:
    """Lets sub-stages meet at random, so that each pair is seen."""

    draw: Any = field(default_factory=lambda: rng(0, "jigsaw probe"))
    shares: tuple[float | None, ...] = (0.5, None)

    def choose(self, machine: Machine, *, state: State) -> Action:
        """Lets a sub-stage run alone or beside another, at a share that is drawn."""
        ready = machine.ready(state)
        must = [name for name in ready if name in state.running]
        free = [str(n) for n in self.draw.permutation([n for n in ready if n not in must])]
        if len(must) == 2 or not free or (must and self.draw.random() < 1 / 3):
            stages = must or free[:1]
        else:
            stages = (must + free)[: 1 if not must and self.draw.random() < 1 / 3 else 2]
        share = self.shares[int(self.draw.integers(len(self.shares)))]
        return Action(stages=tuple(stages), share=share if len(stages) == 2 else None)


def measure(
    study: sweep.Study, *, say: Callable[[str], object], table: Path | None = None
) -> tuple[Slowdown, list[Round]]:
    """Measures slowdowns, and then every round.

    Args:
        study: whose trials of a seed are one round; at least two. As many are under way at a time
            as its launcher says, if that is `jigsaw`.
        say: is told what was found.
        table: file for the slowdowns.

    Raises:
        ConfigError: the trials of a seed are fewer than two.
        GfcrError: a trial failed.
    """
    if len(study.trials) < 2 * len(study.seeds):
        raise ConfigError(f"study {study.name} has one arm: give two or more, to run together.")
    with tempfile.TemporaryDirectory(prefix="gfcr-jigsaw-") as work:
        given = study.launcher
        parallel = given.parallel if isinstance(given, Jigsaw) else Jigsaw().parallel
        probe, met = Jigsaw(parallel=parallel), list[Lent]()
        probe.decides = Probing()
        for number in range(PROBES):
            own = Path(work, f"probe-{number}")
            met += _run(study, probe, seed=study.seeds[0], work=own)[1]
        slowdown = fitted(met)
        file = table or Path(work, "table.json")
        slowdowns.write(slowdown, path=file)
        rounds: list[Round] = []
        for number, seed in enumerate(study.seeds):
            turn = number % len(ARMS)
            made: dict[Name, Round] = {}
            for name in ARMS[turn:] + ARMS[:turn]:
                launcher = Jigsaw(parallel=parallel, scheduler=name, table=str(file))
                found, lent = _run(study, launcher, seed=seed, work=Path(work, f"{seed}-{name}"))
                made[name] = replace(found, lent=lent)
                say(f"{name}, seed {seed}: {found.makespan_s:.1f} s")
            rounds += _predicted(made, slowdown=slowdown, parallel=parallel)
        return slowdown, rounds


def _predicted(made: Mapping[Name, Round], *, slowdown: Slowdown, parallel: int) -> list[Round]:
    """Rounds of a seed with what they should take: libraries, and what the serial one lent."""
    serial = made["serial"]
    foretell = partial(predicted, serial.lent, slowdown=slowdown, parallel=parallel)
    besides_s = serial.makespan_s - foretell(scheduler="serial")
    return [
        replace(
            found,
            apart={n: _apart(path, serial.models[n]) for n, path in found.models.items()},
            predicted_s=besides_s + foretell(scheduler=name),
        )
        for name, found in made.items()
    ]


def _run(
    study: sweep.Study, launcher: Jigsaw, *, seed: int, work: Path
) -> tuple[Round, Sequence[Lent]]:
    own = [replace(t.config, folder=str(work)) for t in study.trials if t.config.seed == seed]
    trials = [sweep.trial_of(config) for config in own]
    jobs = [
        Job(name=trial.name, config=configs.as_dict(trial.config), folder=trial.folder)
        for trial in trials
    ]
    began = time.perf_counter()
    running = launcher.run(jobs, begin=lambda job: None, watch=lambda job: None)
    ends = {end.job.name: end.result for end in running}
    took_s = time.perf_counter() - began
    for name, result in ends.items():
        if result["status"] != "finished":
            raise GfcrError(f"{name} under {launcher.scheduler}: {result.get('error', result)}")
    found = Round(
        scheduler=launcher.scheduler,
        seed=seed,
        makespan_s=took_s,
        predicted_s=float("nan"),
        rollouts={
            f"{name}/{rollout.id}": hashlib.sha256(rollout.tokens_T.tobytes()).hexdigest()
            for name, result in ends.items()
            for group in read_rollouts(Path(result["folder"], "rollouts"))
            for rollout in group.rollouts
        },
        models={name: Path(result["model"]) for name, result in ends.items() if result["model"]},
        apart={},
        lent=(),
    )
    return found, [*launcher.lent]


def _apart(one: Path, other: Path) -> float:
    """The largest difference of a weight."""
    first, second = weights(one), weights(other)
    return max(float((first[name] - second[name]).abs().max()) for name in first)
