"""Records of runs made by hand, with nothing in them but what a test is about."""

from dataclasses import fields, replace
from math import nan
from typing import Any

from gfcr.config import HELDOUT
from gfcr.leaderboard.board import Leaderboard
from gfcr.leaderboard.rows import ArmCost, Pareto, Row, Score, Versus
from gfcr.stats import Comparison, Interval, Profile
from gfcr.tracking.records import RunRecord
from tests.heldout import asked, measured

COST = ArmCost(**{"ledger": {}, **{f.name: nan for f in fields(ArmCost) if f.name != "ledger"}})


def record(arm: str = "a", seed: int = 0, **more: Any) -> RunRecord:
    """A finished run; `result` and all else that a record has as given."""
    given = {"run_id": f"{arm}-{seed}", "study": "study", "status": "finished", **more}
    return RunRecord(arm=arm, seed=seed, **given)


def held(
    arm: str = "a", seed: int = 0, *, before: Any = None, after: Any = None, **more: Any
) -> RunRecord:
    """A run with these held-out evaluations, by prompt; other keys belong to the result."""
    question = more.pop("asked", None)
    whens = {"before": before, "after": after, "asked": question}
    heldout = {when: what for when, what in whens.items() if what is not None}
    return record(arm, seed, result={"heldout": heldout, **more})


def rowed(arm: str = "a", **given: Any) -> Row:
    """A row of a table; what is not given is zero, empty or unknown."""
    score = Score(value=0.5, low=nan, high=nan, floor=0.5, iqm=0.5, iqm_low=nan, iqm_high=nan)
    row = Row(
        **{"arm": arm, "strategy": arm, "rank": None, "unranked": "", "certificate": "none"},
        **{
            "stages": {},
            "seeds": (0, 1),
            "run_ids": (),
            "settings": {},
            "before": 0.25,
            "score": score,
            "versus": None,
        },
        **{"answers": 0, "unscorable": 0, "cut": 0, "cost": COST, "to_target": None},
        pareto=Pareto(tokens=False, seconds=False),
        **{"bias": {}, "profile": Profile(thresholds=(), share=(), low=(), high=())},
        **{"provenance": {}, "notes": (), "curves": {}, "series": {}},
    )
    return replace(row, **given)


def sound(arm: str = "a", seed: int = 0, *, score: float = 0.5, **more: Any) -> RunRecord:
    """A run with all that a row needs, asked two prompts twice; keys of its result as given."""
    whens = {
        when: measured({"p": mean - 0.25, "q": mean + 0.25}, samples=2)
        for when, mean in (("before", 0.25), ("after", score))
    }
    result = {
        **{"strategy": arm, "updates": 4, "wall_s": 9.0},
        "tokens": {"generated": 10, "trained": 10},
        "curve": [[0, 0, 0.0, 0.25], [4, 10, 9.0, score]],
        "heldout": {"asked": asked(2, samples=2), **whens},
    }
    return record(
        **{"arm": arm, "seed": seed, "result": {**result, **more}},
        tags={"gfcr.task": "t", "gfcr.model": "m", "gfcr.spec_hash": f"of-{arm}"},
    )


def board(*rows: Row, **given: Any) -> Leaderboard:
    """A leaderboard of the rows, without a baseline."""
    known = {"study": "study", "metric": HELDOUT, "baseline": None, "margin": 0.02}
    unknown = {"own_margin": 0.02, "target": None, "noise_floor": None, "excluded": ()}
    return Leaderboard(rows=rows, **{**known, **unknown, **given})


def compared_by(value: float, *, verdict: Any = "better") -> Versus:
    """A comparison with the baseline, every figure of its own."""
    return Versus(
        comparison=Comparison(
            pairs=5,
            difference=Interval(value=value, low=value - 0.1, high=value + 0.2),
            inner=Interval(value=value, low=value - 0.01, high=value + 0.02),
            **{"p_value": 0.03, "detectable": 0.07, "improves": 0.9},
        ),
        p_adjusted=0.04,
        verdict=verdict,
    )
