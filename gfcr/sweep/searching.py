"""Runs a study or a search, whose sampler chooses arms in batches by earlier results."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite, nan
from statistics import fmean
from typing import final

from gfcr.errors import ConfigError
from gfcr.search.halving import Halving
from gfcr.search.optuna import Searcher
from gfcr.sweep import decisions
from gfcr.sweep.rounds import Sweep, rounds_of
from gfcr.sweep.scores import score_at
from gfcr.sweep.study import Study, Trial, TrialEnd
from gfcr.tracking.names import MARGIN

Watch = Callable[[Trial], None]


def run(
    study: Study,
    *,
    fresh: bool = False,
    begin: Watch = lambda trial: None,
    watch: Watch = lambda trial: None,
) -> list[TrialEnd]:
    """Runs the trials that have not finished, in the order of the file.

    A failed one does not stop the others. If interrupted, the same call resumes. A search begins
    with the baseline's trials, and goes on with candidates until there are as many as asked for.

    Raises:
        ConfigError: the stopping rule does not fit the study.
        GfcrError: the launcher has nothing to run trials on.
    """
    sweep = Sweep(study=study, fresh=fresh, begin=begin, watch=watch)
    if study.search is None:
        return sweep.run(rounds_of(study))
    rule = study.stopping
    halving = (rule.first, rule.factor) if isinstance(rule, Halving) else None
    searcher = Searcher(study.search.spec, halving=halving)
    hunt = _Search(study=study, searcher=searcher, fresh=fresh, begin=begin, watch=watch)
    ends = sweep.run(rounds_of(study)[-1:])
    left = study.search.spec.trials
    while left:
        batch = min(left, study.search.spec.batch)
        ends += hunt.run_batch(batch)
        left -= batch
    hunt.write_best(base=ends[: len(study.trials)])
    return ends


def unfolded(study: Study) -> Study:
    """Returns a search as the study of the arms it has tried so far, their values as levels.

    Any other study is returned as it is.
    """
    if study.search is None:
        return study
    lines = [line for line in decisions.read(study) if line["decision"] == "asked"]
    space = study.search.spec.space.keys()  # those of an earlier one are no arms of this file
    asked = {d["arm"]: d["values"] for d in lines if d["values"].keys() == space}
    trials = list[Trial]()
    for arm, values in asked.items():
        with suppress(ConfigError):  # the rest of the file was edited, and leaves no such arm
            trials += study.search.make(arm, values)
    levels = {arm: {key: str(v) for key, v in values.items()} for arm, values in asked.items()}
    return replace(study, trials=(*study.trials, *trials), levels=levels, search=None)


@final
@dataclass(kw_only=True)
class _Search:
    """A search that is under way."""

    study: Study
    searcher: Searcher
    fresh: bool
    begin: Watch
    watch: Watch

    def run_batch(self, size: int) -> list[TrialEnd]:
        """Asks the sampler for candidates, runs them in rounds, and reports their results."""
        assert self.study.search is not None
        numbers, trials = dict[str, int](), list[Trial]()
        for number, values in [self.searcher.ask() for _ in range(size)]:
            line = {"arm": _name(number), "decision": "asked", "values": values}
            try:
                trials += self.study.search.make(_name(number), values)
                numbers[_name(number)] = number
            except ConfigError as error:
                # Each value fits by itself, and not beside the others.
                print(f"gfcr: candidate {_name(number)} is left out: {error}", file=sys.stderr)
                self.searcher.tell(number, None)
                line |= {"decision": "left out", "why": str(error)}
            # It is written before they run: an interrupted search is known by these lines.
            decisions.append(self.study, line)
        sub = replace(self.study, trials=tuple(trials))
        sweep = Sweep(study=sub, fresh=self.fresh, begin=self.begin, watch=self.watch)

        def decide(scores: Mapping[str, Mapping[int, float]], step: int) -> dict[str, str]:
            return {
                arm: f"asynchronous successive halving at {step}, mean {fmean(s.values()):.4g}"
                for arm, s in scores.items()
                # One that has lost a seed fails, and is no measure for others.
                if len(s) == len(self.study.seeds)
                and self.searcher.stops(numbers[arm], score=fmean(s.values()), step=step)
            }

        ends = sweep.run(rounds_of(self.study), decide=decide)
        for arm, number in numbers.items():
            own = [e for e in ends if e.trial.config.name == arm]
            stopped = any(e.status == "stopped" for e in own)
            self.searcher.tell(number, self._objectives(own), stopped=stopped)
        return ends

    def write_best(self, *, base: Sequence[TrialEnd]) -> None:
        """Records the best candidates, or the Pareto front of those about as good as the base."""
        assert self.study.search is not None
        aims, effect = self.study.search.spec.objectives, self.study.minimum_effect
        found = self._objectives(base)
        least = nan if found is None else found[aims.index("score")]
        least -= MARGIN if effect is None else effect
        best = [_name(number) for number in self.searcher.best(least=least)]
        decisions.append(self.study, {"decision": "best", "objectives": aims, "arms": best})

    def _objectives(self, ends: Sequence[TrialEnd]) -> list[float] | None:
        assert self.study.search is not None
        if any(e.status not in ("finished", "cached") or e.problem for e in ends):
            return None
        aims = self.study.search.spec.objectives
        means = [fmean(_value(end, aim) for end in ends) for aim in aims]
        return means if all(map(isfinite, means)) else None


def _value(end: TrialEnd, aim: str) -> float:
    """Returns the value of an objective; NaN where the trial has none."""
    if aim == "score":
        score = score_at(end.trial, result=end.result, until=None)
        return nan if score is None else score
    return end.result["curve"][-1][{"tokens": 1, "seconds": 2}[aim]]


def _name(number: int) -> str:
    return f"c{number:03d}"
