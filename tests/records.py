"""Records of runs made by hand, with nothing in them but what a test is about."""

from dataclasses import fields, replace
from math import nan
from typing import Any

from gfcr.leaderboard.rows import ArmCost, Pareto, Row, Score
from gfcr.stats import Profile
from gfcr.tracking.records import RunRecord

COST = ArmCost(**{"ledger": {}, **{f.name: nan for f in fields(ArmCost) if f.name != "ledger"}})


def record(arm: str = "a", seed: int = 0, **more: Any) -> RunRecord:
    """A finished run; `result` and all else that a record has as given."""
    given = {"run_id": f"{arm}-{seed}", "study": "study", "status": "finished", **more}
    return RunRecord(arm=arm, seed=seed, **given)


def held(
    arm: str = "a", seed: int = 0, *, before: Any = None, after: Any = None, **more: Any
) -> RunRecord:
    """A run with these held-out evaluations, by prompt; other keys belong to the result."""
    asked = more.pop("asked", None)
    whens = {"before": before, "after": after, "asked": asked}
    heldout = {when: what for when, what in whens.items() if what is not None}
    return record(arm, seed, result={"heldout": heldout, **more})


def rowed(arm: str = "a", **given: Any) -> Row:
    """A row of a table; what is not given is zero, empty or unknown."""
    score = Score(value=0.5, low=nan, high=nan, floor=0.5, iqm=0.5, iqm_low=nan, iqm_high=nan)
    row = Row(
        **{"arm": arm, "strategy": arm, "rank": None, "unranked": "", "certificate": "none"},
        **{"stages": {}, "seeds": (0, 1), "before": 0.25, "score": score, "versus": None},
        **{"answers": 0, "unscorable": 0, "cut": 0, "cost": COST, "to_target": None},
        pareto=Pareto(tokens=False, seconds=False),
        **{"bias": {}, "profile": Profile(thresholds=(), share=(), low=(), high=())},
        **{"provenance": {}, "notes": (), "curves": {}, "series": {}},
    )
    return replace(row, **given)
