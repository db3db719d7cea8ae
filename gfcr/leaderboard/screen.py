"""Which runs may be averaged: the others are left out, each with its reason."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import final

from gfcr.leaderboard.integrity import contradiction
from gfcr.leaderboard.measure import heldout, result_of, section
from gfcr.leaderboard.rows import Excluded
from gfcr.tracking.records import RunRecord


def screen(
    records: Sequence[RunRecord], *, baseline: str | None
) -> tuple[dict[str, list[RunRecord]], list[Excluded]]:
    """Sorts runs into arms whose seeds may be averaged, and the runs left out.

    Kept are runs that finished with a finite score and whose records agree with each other, on one
    task and model (the baseline's, or else the most common), and within an arm those of the most
    common spec and (where no budget ends them) number of updates, one per seed.
    """
    sieve = _Sieve(runs=list(records))
    sieve.drop(_unusable)
    setting = _settings(sieve.runs)
    home = Counter(setting(run) for run in sieve.runs if run.arm == baseline)
    sieve.keep_usual(setting, why="{}, where this table is about {}", first=home)
    arms: dict[str, list[RunRecord]] = {}
    for arm in sorted({run.arm for run in sieve.runs}):
        part = _Sieve(runs=[run for run in sieve.runs if run.arm == arm], out=sieve.out)
        part.keep_usual(_spec, why="spec {}, where the arm's other seeds have {}")
        if not any(result_of(run).get("stopped_by") for run in part.runs):
            # Where a budget ends runs, they make as many updates as it pays for.
            part.keep_usual(_updates, why="{}, where the arm's other seeds made {}")
        part.drop_repeated_seeds()
        arms[arm] = sorted(part.runs, key=lambda run: run.seed)
    return arms, sieve.out


_TASK = ("task.", "evaluation.temperature")
"""Parameters that decide what the held-out score measures."""


@final
@dataclass(kw_only=True)
class _Sieve:
    """Runs that are still in, and those that are out."""

    runs: list[RunRecord]
    out: list[Excluded] = field(default_factory=list[Excluded])

    def drop(self, reason: Callable[[RunRecord], str | None]) -> None:
        """Leaves out the runs for which there is a reason to."""
        kept: list[RunRecord] = []
        for run in self.runs:
            why = reason(run)
            if why is None:
                kept.append(run)
            else:
                out = Excluded(run_id=run.run_id, arm=run.arm, seed=run.seed, reason=why)
                self.out.append(out)
        self.runs = kept

    def keep_usual(
        self,
        fact: Callable[[RunRecord], str],
        *,
        why: str,
        first: Counter[str] | None = None,
    ) -> None:
        """Leaves out runs that differ in a fact from most runs (of `first`, when it has any)."""
        counts = first or Counter(fact(run) for run in self.runs)
        usual = min(counts, key=lambda value: (-counts[value], value), default="")
        self.drop(lambda run: None if fact(run) == usual else why.format(fact(run), usual))

    def drop_repeated_seeds(self) -> None:
        """Keeps one run of each seed, the first by id."""
        first = {run.seed: run for run in sorted(self.runs, key=lambda r: r.run_id, reverse=True)}
        self.drop(
            lambda run: (
                None
                if first[run.seed] is run
                else f"seed {run.seed} is here already as run {first[run.seed].run_id}"
            )
        )


def _unusable(run: RunRecord) -> str | None:
    if run.damage:
        return f"the store is damaged: {run.damage}"
    if run.status == "failed":
        return f"the run failed: {result_of(run).get('error', 'no reason is recorded')}"
    if run.status == "stopped":
        return (
            f"the run was stopped early: {result_of(run).get('stopped', 'no reason is recorded')}"
        )
    if run.status != "finished":
        return "the run has not finished, or was killed"
    if run.result is None:
        return "the store is damaged: the run finished, and its result.json is missing"
    return _missing(run) or contradiction(run)


def _missing(run: RunRecord) -> str | None:
    """Names the first figure that a row needs and the run has not."""
    result = result_of(run)
    score = heldout(run).get("accuracy")
    if not _finite(score):
        return f"held-out accuracy is {score}"
    odd = [p for p, s in section(heldout(run), "per_prompt").items() if not _finite(s)]
    if odd:
        return f"the held-out score of prompt {odd[0]} is no finite number ({len(odd)} such)"
    for name, value in (
        ("updates", result.get("updates")),
        ("wall_s", result.get("wall_s")),
        ("tokens.generated", section(result, "tokens").get("generated")),
    ):
        if not _finite(value):
            return f"{name} is {value} in its result"
    return None if "strategy" in result else "its result names no strategy"


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _settings(runs: Sequence[RunRecord]) -> Callable[[RunRecord], str]:
    """What the score is a score of: task and model, and whichever of the task's values differ."""
    names = sorted({n for run in runs for n in run.params if n.startswith(_TASK)})
    differ = [n for n in names if len({run.params.get(n) for run in runs}) > 1]

    def setting(run: RunRecord) -> str:
        named = f"task {run.tags.get('gfcr.task', '?')}, model {run.tags.get('gfcr.model', '?')}"
        return ", ".join([named, *(f"{n} {run.params.get(n)}" for n in differ)])

    return setting


def _spec(run: RunRecord) -> str:
    return run.tags.get("gfcr.spec_hash", "?")


def _updates(run: RunRecord) -> str:
    return f"{result_of(run).get('updates')} updates"
