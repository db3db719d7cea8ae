"""The study of a claim: its strategy and its baseline, in its regime, at one budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.claims import regime as regimes
from benchmarks.claims.claim import Claim
from benchmarks.claims.measures import CALLS, HOW, Bound, Measured, bound_of, measure
from benchmarks.claims.regime import Regime
from gfcr import sweep
from gfcr.errors import ConfigError
from gfcr.sweep import Study
from gfcr.tracking.folder_store import read_folders
from gfcr.tracking.records import RunRecord
from gfcr.values import merging

REPLICATION: Final = range(1000, 1003)
"""The seeds of replications, which no study that decides has."""
_MOST_UPDATES = 100_000
"""Updates of runs that another bound ends."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A claim, the regime it is tested in, and the study that tests it."""

    claim: Claim
    regime: Regime
    study: Study

    @property
    def arms(self) -> tuple[list[RunRecord], list[RunRecord]]:
        """The finished and undamaged runs of the strategy, and those of the baseline."""
        folders = [t.folder for t in self.study.trials if (t.folder / "run.json").is_file()]
        runs = [
            r
            for r in read_folders(folders, series=[CALLS])
            if r.status == "finished" and not r.damage
        ]
        ours = [r for r in runs if r.arm == self.claim.strategy]
        return ours, [r for r in runs if r.arm == self.claim.baseline]

    @property
    def left(self) -> int:
        """The number of runs still to make."""
        return len(self.study.trials) - sum(map(len, self.arms))

    def measured(self) -> Measured | None:
        """Returns the effect that the present runs show; None below two seeds in both arms."""
        ours, theirs = self.arms
        return measure(self.claim, arm=ours, baseline=theirs, target=self.regime.target)


def ask(
    claim: Claim,
    *,
    seeds: Sequence[int],
    folder: Path = regimes.FOLDER,
    changes: Mapping[str, Any] | None = None,
) -> Asked:
    """Makes the study of a claim; claims of one regime and bound share their baseline's runs.

    Args:
        claim: the claim to test.
        seeds: the seeds of both arms.
        folder: the folder of the regimes.
        changes: further values of the study's file, such as `launcher`.

    Raises:
        ConfigError: there is no such regime, strategy or setting, or the claim compares a strategy
            with itself.
    """
    where = f"the claim of {claim.strategy}"
    if claim.baseline == claim.strategy:
        raise ConfigError(f"{where}: baseline={claim.baseline} is the strategy itself.")
    regime = regimes.load(claim.regime, folder=folder)
    bound = bound_of(claim.measure)
    values = merging.merge(
        merging.read(regimes.base(claim.regime, folder=folder)),
        {
            "study": f"claims_{claim.regime}_{bound}",
            "tracking": {"name": "local"},
            "baseline": claim.baseline,
            "seeds": [*seeds],
            **_budget(bound, regime=regime),
            **({"minimum_effect": claim.minimum_effect} if _of_score(claim) else {}),
        },
    )
    own = {"name": claim.strategy, **claim.settings}
    arms = {claim.baseline: {"strategy": claim.baseline}, claim.strategy: {"strategy": own}}
    values = merging.merge({**values, "arms": arms}, changes or {})
    return Asked(claim=claim, regime=regime, study=sweep.from_values(values, where=where))


def _of_score(claim: Claim) -> bool:
    return HOW[claim.measure].of == "score"


def _budget(bound: Bound, *, regime: Regime) -> dict[str, Any]:
    match bound:
        case "updates":  # those of the regime's own file
            return {}
        case "tokens":
            budget: dict[str, Any] = {"generated_tokens": regime.tokens}
        case "seconds":
            budget = {"seconds": regime.seconds}
    return {"budget": budget, "trainer": {"max_steps": _MOST_UPDATES}}
