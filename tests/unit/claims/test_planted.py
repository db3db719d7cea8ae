"""Planted strategies: who learns nothing is seen in no measure, who saves honestly is."""

from collections.abc import Callable, Sequence
from math import log
from typing import Any, Literal

import numpy as np
import pytest

from benchmarks.claims import display, entry
from benchmarks.claims.claim import Claim, Measure, Published
from benchmarks.claims.measures import CALLS, HOW, least, measure
from gfcr.shown.text import plain
from gfcr.tracking.records import RunRecord
from tests.cases import over
from tests.heldout import asked, measured
from tests.records import record

PROMPTS = [f"p{n}" for n in range(256)]
SEEDS = range(5)
REGIMES = {
    "dense": (0.42, 0.58),
    "tail": (0.53, 0.70),
    "saturated": (0.92, 0.94),
    "beyond_reach": (0.04, 0.03),
    "sparse": (0.15, 0.22),
}
"""The score before training and that of grpo after it."""
Ways = Callable[[float, float], float]
WANTED: dict[str, Any] = {
    "minimum_effect": 0.05,
    "published": Published(size="much", where="elsewhere", source="ours"),
}
IDLE: dict[str, Ways] = {
    "trains on nothing": lambda before, after: before,
    "trains on random rewards": lambda before, after: before - 0.03,
}


def _run(arm: str, seed: int, *, before: float, after: float, spent: float) -> RunRecord:
    """A run whose prompts are right by chance, as often as the means say."""
    rng = np.random.default_rng([seed, *arm.encode()])
    difficulty = np.random.default_rng(7).random(len(PROMPTS))
    held = {
        when: measured(dict(zip(PROMPTS, _answers(mean, difficulty, rng), strict=True)))
        for when, mean in (("before", before), ("after", after))
    }
    points = [(s, s / 4 * (after - before) + before) for s in range(5)]
    result = {
        "curve": [[s, spent * s, spent * s, score] for s, score in points],
        "heldout": {"asked": asked(len(PROMPTS)), **held},
        "reward_range": [0.0, 1.0],
        "forward_passes": spent,
        "tokens": {"evaluation": spent},
        "time": {"generate_s": spent},
    }
    return record(arm, seed, result=result, series={CALLS: ((4, spent),)})


def _answers(mean: float, difficulty: Any, rng: np.random.Generator) -> list[float]:
    """Answers that are right where a prompt is easy enough, but for one in fifty."""
    right = difficulty < mean
    flipped = rng.random(len(difficulty)) < 0.02
    return [float(a != b) for a, b in zip(right, flipped, strict=True)]


def _verdict(
    how: Measure,
    *,
    direction: Literal["better", "equal"] = "better",
    arm: Sequence[RunRecord],
    baseline: Sequence[RunRecord],
    target: float,
) -> str:
    claim = Claim(
        strategy="planted",
        regime="r",
        measure=how,
        direction=direction,
        **WANTED,
    )
    found = measure(claim, arm=arm, baseline=baseline, target=target)
    if found is None:
        return "none"
    told = {
        "strategy": "planted",
        "claim": claim,
        "minimum": least(how, minimum=0.05),
        "measured": found,
    }
    return entry.judged([plain(told)])[0].verdict


def _arms(regime: str, *, way: Ways, spent: float) -> dict[str, Any]:
    before, after = REGIMES[regime]
    ours = way(before, after)
    return {
        "arm": [_run("a", s, before=before, after=ours, spent=spent + s / 10) for s in SEEDS],
        "baseline": [_run("b", s, before=before, after=after, spent=100.0 + s) for s in SEEDS],
        "target": (before + after) / 2,
    }


@over("regime", [*REGIMES])
@over("idle", [*IDLE])
def test_who_learns_nothing_is_seen_in_no_measure(regime: str, idle: str) -> None:
    arms = _arms(regime, way=IDLE[idle], spent=50.0)
    found = {how: _verdict(how, **arms) for how in HOW}
    found["equal"] = _verdict("score_at_updates", direction="equal", **arms)
    assert not {"seen", "smaller"} & {*found.values()}, found


def test_a_saving_that_is_paid_in_score_is_told_as_that() -> None:
    arms = _arms("dense", way=IDLE["trains on nothing"], spent=50.0)
    for how in ("tokens_saved", "generation_saved", "passes_saved", "answers_shortened"):
        assert _verdict(how, **arms) == "saved but worse"


@over("regime", ["dense", "tail"])
def test_an_honest_saver_is_seen(regime: str) -> None:
    arms = _arms(regime, way=lambda before, after: after, spent=50.0)
    saved = [how for how in HOW if HOW[how].of == "cost"]
    found = {how: _verdict(how, **arms) for how in saved}
    assert {*found.values()} == {"seen"}, found
    assert _verdict("score_at_updates", direction="equal", **arms) == "seen"


def test_where_grpo_learns_nothing_not_even_an_honest_saver_can_be_told() -> None:
    arms = _arms("saturated", way=lambda before, after: after, spent=50.0)
    assert _verdict("tokens_saved", **arms) == "inconclusive"


def test_one_correction_is_over_both_parts() -> None:
    one = {
        "strategy": "planted",
        "claim": {"measure": "tokens_saved", "direction": "better"},
        "minimum": log(1 / 0.9),
        "measured": _found(p_value=0.02, score=0.04),
    }
    (alone,) = entry.judged([one])
    assert (alone.q_value, alone.score_q) == (pytest.approx(0.04), pytest.approx(0.04))
    many = entry.judged([one, {**one, "measured": _found(p_value=0.9, score=0.8)}])
    assert many[0].verdict == "inconclusive" and many[0].score_q == pytest.approx(0.08)


def _found(*, p_value: float, score: float) -> dict[str, Any]:
    inner = {"value": 0.3, "low": 0.2, "high": 0.4}
    return {
        "comparison": {"inner": inner, "difference": inner, "p_value": p_value},
        **{"at_least": False, "at_most": False},
        "score": {
            **{"margin": 0.03, "p_value": score, "gain": {"low": 0.1}, "at_least": False},
            "difference": {"value": 0.0},
        },
    }


def test_a_loss_of_answers_that_nobody_could_score_is_no_loss() -> None:
    found = _found(p_value=0.001, score=0.001)
    found["score"]["difference"] = {"value": -0.3}
    one = {
        "strategy": "planted",
        "claim": {"measure": "tokens_saved", "direction": "better"},
        "minimum": 0.1,
        "measured": found,
    }
    for at_least, verdict in ((False, "saved but worse"), (True, "inconclusive")):
        found["score"]["at_least"] = at_least
        assert entry.judged([one])[0].verdict == verdict


def test_a_replication_is_read_by_its_estimates_alone() -> None:
    base = {"claim": {"measure": "tokens_saved", "direction": "better"}, "minimum": 0.1}
    first = {**base, "strategy": "planted", "measured": _found(p_value=0.001, score=0.001)}
    assert entry.replicated(first) is None
    for value, loss, verdict in (
        (0.3, 0.0, "seen"),
        (0.05, 0.0, "smaller"),
        (0.3, 0.2, "saved but worse"),
    ):
        second = _found(p_value=1.0, score=1.0)
        second["comparison"]["difference"] = {"value": value}
        second["score"]["difference"] = {"value": -loss}
        again = {**first, "replication": second}
        assert entry.replicated(again) == verdict
        claim = Claim(strategy="a", regime="r", measure="tokens_saved", **WANTED)
        assert display.replication(again, claim=claim).endswith(f"score {-loss:+.3f}: {verdict}")
