"""Sorts out which runs may be averaged; the others are left out, each with its reason."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from gfcr.leaderboard.design import began
from gfcr.leaderboard.measure import asked_of, heldout, result_of
from gfcr.leaderboard.rows import Excluded
from gfcr.tracking.names import DIGEST, compared
from gfcr.tracking.records import RunRecord
from gfcr.values.numbers import real


def screen(
    records: Sequence[RunRecord], *, baseline: str | None
) -> tuple[dict[str, list[RunRecord]], list[Excluded]]:
    """Sorts runs into arms whose seeds may be averaged, and the runs left out.

    Kept are runs that finished with a finite score and were asked the same by the same means (the
    baseline's, or else the most common), and within an arm those of the most common spec and (where
    no budget ends them) number of updates, one for each seed.
    """
    sieve = _Sieve(runs=list(records))
    sieve.drop(_unusable)
    setting = _settings(sieve.runs, compares=compares_of(sieve.runs, baseline=baseline))
    home = Counter(setting(run) for run in sieve.runs if run.arm == baseline)
    sieve.keep_usual(setting, why="{}, where this table is about {}", first=home)
    arms: dict[str, list[RunRecord]] = {}
    for arm in sorted({run.arm for run in sieve.runs}):
        part = _Sieve(runs=[run for run in sieve.runs if run.arm == arm], out=sieve.out)
        spec = "spec {}, where the arm's other seeds have {}"
        part.keep_usual(lambda run: run.tags.get("gfcr.spec_hash", "?"), why=spec)
        if not any(result_of(run).get("stopped_by") for run in part.runs):
            # Where a budget ends runs, they make as many updates as it pays for.
            updates = "{}, where the arm's other seeds made {}"
            part.keep_usual(lambda run: f"{result_of(run).get('updates')} updates", why=updates)
        part.drop_repeated_seeds()
        arms[arm] = sorted(part.runs, key=lambda run: run.seed)
    return arms, sieve.out


_SAME = ("task.", "evaluation.", "engine.")
"""Prefixes of the parameters that decide what the held-out score measures, and how."""
_GIVEN = {
    "model.files": "model",
    "training prompts": "training",
    "held-out prompts at any time": "heldout",
    "code that asks and scores": "asking",
}
"""Digest tags of what a spec only names, by their words; `a | b` if it was resumed with others."""


def compares_of(runs: Sequence[RunRecord], *, baseline: str | None) -> list[str]:
    """Returns the keys that the study compares, as the baseline's runs say, or else all runs."""
    own = [run for run in runs if run.arm == baseline] or runs
    said = [set(run.tags.get("gfcr.compares", "").split()) for run in own]
    return sorted(set[str].intersection(*said)) if said else []


@final
@dataclass(kw_only=True)
class _Sieve:
    """The runs that are still in, and those left out with their reasons."""

    runs: list[RunRecord]
    out: list[Excluded] = field(default_factory=list[Excluded])

    def drop(self, reason: Callable[[RunRecord], str | None]) -> None:
        """Leaves out the runs for which `reason` returns one."""
        told = [(run, reason(run)) for run in self.runs]
        self.runs = [run for run, why in told if why is None]
        self.out += [
            Excluded(run_id=run.run_id, arm=run.arm, seed=run.seed, reason=why.removesuffix("."))
            for run, why in told
            if why is not None
        ]

    def keep_usual(
        self,
        fact: Callable[[RunRecord], str],
        *,
        why: str,
        first: Counter[str] | None = None,
    ) -> None:
        """Leaves out runs whose fact is not the commonest one (of `first`, when it has any)."""
        counts = first or Counter(fact(run) for run in self.runs)
        usual = min(counts, key=lambda value: (-counts[value], value), default="")
        self.drop(lambda run: None if fact(run) == usual else why.format(fact(run), usual))

    def drop_repeated_seeds(self) -> None:
        """Keeps one run of each seed: the first by id, then the one that began first."""
        order = sorted(self.runs, key=lambda r: (r.run_id, began(r)), reverse=True)
        first = {run.seed: run for run in order}
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
    score = heldout(run).get("accuracy")
    return f"held-out score is {score}" if real(score) is None else None


def _settings(runs: Sequence[RunRecord], *, compares: Sequence[str]) -> Callable[[RunRecord], str]:
    """Returns a function that describes a run's task, model and all other values that differ.

    Prompts are compared by a digest of what was asked, not by the name of the task.
    """
    names = sorted({n for run in runs for n in run.params if n.startswith(_SAME)})
    values: dict[str, Callable[[RunRecord], str]] = {
        "model": lambda run: run.tags.get("gfcr.model", "?"),
        **{n: lambda run, n=n: str(run.params.get(n)) for n in names},
        "held-out prompts": lambda run: _question(asked_of(run)),
        **{t: lambda run, n=n: run.tags.get(f"{DIGEST}{n}", "?") for t, n in _GIVEN.items()},
    }
    facts = {n: of for n, of in values.items() if not compared(n, keys=compares)}
    differ = [n for n, of in facts.items() if n == "model" or len({of(run) for run in runs}) > 1]

    def setting(run: RunRecord) -> str:
        task = f"task {run.tags.get('gfcr.task', '?')}"
        return ", ".join([task, *(f"{n} {facts[n](run)}" for n in differ)])

    return setting


def _question(asked: Mapping[str, Any]) -> str:
    return f"{str(asked['digest'])[:12]} ({asked['prompts']} x {asked['samples']} answers)"
