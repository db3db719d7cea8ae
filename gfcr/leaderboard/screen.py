"""Which runs may be averaged: the others are left out, each with its reason."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import final

from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard.measure import heldout, result_of
from gfcr.leaderboard.rows import Excluded
from gfcr.tracking.records import RunRecord


def matching(records: Sequence[RunRecord], *, where: Mapping[str, str]) -> list[RunRecord]:
    """Returns the runs whose parameters and tags have the values `where` asks for."""
    found: list[RunRecord] = []
    known = {"study", "arm", "seed"}.union(*({*r.params, *r.tags} for r in records))
    for key in where:
        if key not in known:
            raise unknown_name(key, kind="parameter or tag", allowed=known, where="where")
    for record in records:
        own = {"study": record.study, "arm": record.arm, "seed": str(record.seed)}
        facts = {**record.params, **record.tags, **own}
        if all(facts.get(key) == value for key, value in where.items()):
            found.append(record)
    if records and not found:
        raise ConfigError(
            f"where={dict(where)!r} leaves no run. Give values that the runs have, as "
            f"`gfcr leaderboard --json` shows them."
        )
    return found


def screen(
    records: Sequence[RunRecord], *, baseline: str | None
) -> tuple[dict[str, list[RunRecord]], list[Excluded]]:
    """Sorts runs into arms whose seeds may be averaged, and the runs left out.

    Kept are runs that finished with a finite score, on one task and model (the baseline's, or else
    the most common), and within an arm those of the most common spec and number of updates, one
    per seed.
    """
    sieve = _Sieve(runs=list(records))
    sieve.drop(_unusable)
    home = Counter(_setting(run) for run in sieve.runs if run.arm == baseline)
    sieve.keep_usual(_setting, why="{}, where this table is about {}", first=home)
    arms: dict[str, list[RunRecord]] = {}
    for arm in sorted({run.arm for run in sieve.runs}):
        part = _Sieve(runs=[run for run in sieve.runs if run.arm == arm], out=sieve.out)
        part.keep_usual(_spec, why="spec {}, where the arm's other seeds have {}")
        part.keep_usual(_updates, why="{}, where the arm's other seeds made {}")
        part.drop_repeated_seeds()
        arms[arm] = sorted(part.runs, key=lambda run: run.seed)
    return arms, sieve.out


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
    if run.status == "failed":
        return f"the run failed: {result_of(run).get('error', 'no reason is recorded')}"
    if run.status != "finished" or run.result is None:
        return "the run has not finished, or was killed"
    score = heldout(run).get("accuracy")
    if score is None or not isfinite(score):
        return f"held-out accuracy is {score}"
    return None


def _setting(run: RunRecord) -> str:
    return f"task {run.tags.get('gfcr.task', '?')}, model {run.tags.get('gfcr.model', '?')}"


def _spec(run: RunRecord) -> str:
    return run.tags.get("gfcr.spec_hash", "?")


def _updates(run: RunRecord) -> str:
    return f"{result_of(run).get('updates')} updates"
