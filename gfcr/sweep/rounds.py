"""Runs trials in rounds, and asks the stopping rule between them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias, final

from gfcr import config as configs
from gfcr.errors import CheckpointError
from gfcr.experiment.source import Pause
from gfcr.launch.base import Job
from gfcr.search.base import Round, Scores
from gfcr.sweep import decisions
from gfcr.sweep.scores import score_at
from gfcr.sweep.study import Study, Trial, TrialEnd
from gfcr.tracking.folder_store import result_at

_AGAIN = "start this command again, or the notebook's kernel, which still has the code before."
Decide: TypeAlias = Callable[[Scores, int], dict[str, str]]
"""Takes scores at a rung and the rung's position; returns the arms to stop, with reasons."""


def rounds_of(study: Study) -> list[Round]:
    """Returns the rounds of a study: a single one if it has no stopping rule.

    Raises:
        ConfigError: the rule does not fit the study.
    """
    if study.stopping is None:
        return [Round(seeds=tuple(study.seeds), until=None)]
    return study.stopping.rounds(seeds=study.seeds, length=study.length)


@final
@dataclass(kw_only=True)
class Sweep:
    """A study that is being run, round by round."""

    study: Study
    fresh: bool
    begin: Callable[[Trial], None]
    watch: Callable[[Trial], None]
    ends: dict[str, TrialEnd] = field(default_factory=dict[str, TrialEnd])
    """The latest end of each trial by name; it may be a pause."""
    finished: set[str] = field(default_factory=set[str])
    """Names of the trials that had finished before."""
    stopped: set[str] = field(default_factory=set[str])
    """Names of the arms that were stopped early."""
    over: set[str] = field(default_factory=set[str])
    """Names of the trials that are run no more: they failed, or were run to their end."""

    def run(self, rounds: Sequence[Round], *, decide: Decide | None = None) -> list[TrialEnd]:
        """Runs all rounds; between them it asks the study's rule, or `decide`."""
        if not self.fresh:
            self.finished |= {t.name for t in self.study.trials if t.status == "finished"}
        *earlier, last = rounds
        for number, current in enumerate(earlier):
            self._run_round(current, final=False)
            self._decide(current, number=number, decide=decide)
        self._run_round(replace(last, seeds=tuple(self.study.seeds)), final=True)
        return [self.ends[trial.name] for trial in self.study.trials]

    def _run_round(self, current: Round, *, final: bool) -> None:
        """Runs the trials of the arms still running until the end of the round."""
        gone = self.stopped | self.over
        left = [t for t in self.study.trials if not gone & {t.config.name, t.name}]
        trials = {t.name: t for t in left if t.config.seed in current.seeds}
        open_trials: list[Trial] = []
        for trial in trials.values():
            known = result_at(trial.folder)
            over = self._starts_over(trial)
            # The last round asks all that have ended before: the store is to have what finished,
            # and what another rule had stopped goes on.
            if not (final or over) and known and _has_reached(known, until=current.until):
                self.ends[trial.name] = self._end(trial, result=known)
            else:
                open_trials.append(trial)
        if not open_trials:
            return
        jobs = [self._job(trial, until=current.until) for trial in open_trials]
        running = self.study.launcher.run(
            jobs,
            begin=lambda job: self.begin(trials[job.name]),
            watch=lambda job: self.watch(trials[job.name]),
        )
        with closing(running) as ends:
            for end in ends:
                found = self._end(trials[end.job.name], result=end.result)
                self.ends[end.job.name] = found
                if current.until is None or found.status == "failed":
                    self.over.add(end.job.name)

    def _decide(self, current: Round, *, number: int, decide: Decide | None) -> None:
        """Asks the rule, records its decisions, and marks the arms that it stops."""
        rule = self.study.stopping
        assert rule is not None
        scores = self._scores(until=current.until)
        if decide is not None:
            assert current.until is not None
            reasons = decide(scores, current.until.at)
        else:
            reasons = rule.give_up(scores) if len(scores) > 1 else {}
        # A rule may name arms again that are stopped; with the baseline others are compared.
        kept = (*self.stopped, self.study.baseline)
        reasons = {arm: why for arm, why in reasons.items() if arm not in kept}
        decisions.write(
            self.study, number=number, until=current.until, scores=scores, reasons=reasons
        )
        for arm, why in reasons.items():
            self.stopped.add(arm)
            place = current.until or f"seeds {', '.join(map(str, sorted(scores[arm])))}"
            self._give_up(arm, why=f"after {place}: {why}")

    def _starts_over(self, trial: Trial) -> bool:
        return self.fresh and trial.name not in self.ends

    def _job(self, trial: Trial, *, until: Pause | None) -> Job:
        return Job(
            name=trial.name,
            config=configs.as_dict(trial.config),
            folder=trial.folder,
            fresh=self._starts_over(trial),
            accept_data=self.study.accept_data,
            until=until,
        )

    def _end(self, trial: Trial, *, result: Mapping[str, Any]) -> TrialEnd:
        status = str(result.get("status", "failed"))
        problem = str(result.get("error")) if status == "failed" else None
        if status == "paused" and "interrupted" in result:
            problem = f"it was interrupted ({result['interrupted']}): the same command goes on"
        # Its process has imported anew what was edited since this one did.
        if (made := Path(result.get("folder", trial.folder)).name) != trial.folder.name:
            status, problem = "failed", f"its code was edited, with which it is {made}: {_AGAIN}"
        if status == "finished":
            status = "cached" if trial.name in self.finished else status
            try:
                score = score_at(trial, result=result, until=None)
            except CheckpointError as error:  # a damaged record ends this trial alone
                return TrialEnd(trial=trial, status="failed", result=result, problem=str(error))
            if score is None or not isfinite(score):
                problem = f"{self.study.metric} is {'missing' if score is None else score}"
        return TrialEnd(trial=trial, status=status, result=result, problem=problem)

    def _scores(self, *, until: Pause | None) -> dict[str, dict[int, float]]:
        found: dict[str, dict[int, float]] = {}
        for trial in self.study.trials:  # in which order they ended is no matter
            end = self.ends.get(trial.name)
            if end is None or trial.config.name in self.stopped or end.status == "failed":
                continue
            with suppress(CheckpointError):  # a damaged record has no score; its run names it
                score = score_at(trial, result=end.result, until=until)
                if score is not None and isfinite(score):
                    found.setdefault(trial.config.name, {})[trial.config.seed] = score
        return found

    def _give_up(self, arm: str, *, why: str) -> None:
        for trial in self.study.arms[arm]:
            end = self.ends.get(trial.name)
            if end is not None and end.status == "failed":
                continue
            result = decisions.give_up(trial, why=why)
            self.ends[trial.name] = TrialEnd(
                trial=trial, status="stopped", result=result, problem=why
            )


def _has_reached(result: Mapping[str, Any], *, until: Pause | None) -> bool:
    curve: Sequence[Sequence[float]] = result.get("curve", ())
    ended = result["status"] == "finished" or bool(result.get("complete"))
    return ended or (until is not None and bool(curve) and until.reached(curve[-1]))
