"""The ranking benchmark on curves whose winner is known."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import ranking
from benchmarks.entries import entry, recomputed
from benchmarks.ranking_report import measure, text
from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.search.halving import Halving
from gfcr.tracking import ended
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.records import RunRecord
from tests.commands import gfcr

ROOT = Path(__file__).parents[3]
UPDATES = tuple(range(0, 41, 5))


def curve(rate: float, *, rng: np.random.Generator, noise: float) -> list[list[float]]:
    """A score that rises from 0.3 towards 0.9; a run's luck lasts, an evaluation's does not."""
    luck = noise * rng.normal()
    return [
        [u, 100.0 * u, 2.0 * u, 0.9 - 0.6 * np.exp(-rate * u) + luck + noise / 2 * rng.normal()]
        for u in UPDATES
    ]


def records(
    rates: Sequence[float], *, seeds: int = 5, noise: float = 0.0, **changes: Any
) -> list[RunRecord]:
    rng = np.random.default_rng(5)
    return [
        RunRecord(
            run_id=f"{arm}-{seed}",
            study="t",
            arm=f"a{arm:02d}",
            seed=seed,
            status="finished",
            tags={"gfcr.baseline": "a00"},
            params={},
            result={"curve": curve(rate, rng=rng, noise=noise), **changes},
        )
        for arm, rate in enumerate(rates)
        for seed in range(seeds)
    ]


RATES = tuple(np.linspace(0.01, 0.05, 12))
TIED = (("a", (0.1, 0.5)), ("b", (0.2, 0.4)), ("c", (0.3, 0.3)))


def halving(first: int, factor: int) -> Any:
    return registry.build("stopping", {"name": "halving", "first": first, "factor": factor})


def test_without_noise_the_winner_is_kept_and_the_cost_is_the_rungs() -> None:
    recorded = ranking.read(records(RATES))
    (first, *rest) = ranking.races(
        recorded, rule=halving(5, 4), arms=12, resamples=20, protect=True
    )
    # Rungs 5, 20, 40: 12 arms to the first, then the best 3 and the baseline to the second, then
    # the best and the baseline to the end.
    spent = 12 * 5 + 4 * 15 + 2 * 20
    assert first.seconds == pytest.approx(spent / (12 * 40)) == first.tokens
    assert first.kept and first.regret == 0 and first.agreement == pytest.approx(1)
    assert all(race == first for race in rest), "equal seeds make equal resamples"


def test_without_its_baseline_a_ranking_costs_the_rungs_alone() -> None:
    recorded = ranking.read(records(RATES))
    (race,) = ranking.races(recorded, rule=halving(5, 4), arms=12, resamples=1)
    assert race.kept and race.seconds == pytest.approx((12 * 5 + 3 * 15 + 20) / (12 * 40))


def test_a_baseline_that_wins_costs_nothing_more() -> None:
    recorded = ranking.read(records(tuple(reversed(RATES))))
    rule = halving(5, 4)
    (race,) = ranking.races(recorded, rule=rule, arms=12, resamples=1, protect=True)
    assert race.kept and race.seconds == pytest.approx((12 * 5 + 3 * 15 + 20) / (12 * 40))


def test_of_arms_that_tie_any_one_is_the_winner() -> None:
    recorded = ranking.read(records((*RATES, RATES[-1])))
    (race, *_) = ranking.races(recorded, rule=halving(5, 3), arms=13, resamples=1)
    assert race.kept and race.regret == 0
    assert ranking.winner_agreement(recorded, resamples=20) == 1
    tied, whole = (
        {arm: {s: [(1, 1, 1, score * n)] for s, score in enumerate(own)} for arm, own in TIED}
        for n in (1, 10)
    )
    assert len({*ranking.ends(tied).values()}) == 1, "their sums differ in a last digit"
    rounded, exact = (
        ranking.winner_agreement(
            ranking.Recorded(study="t", baseline="a", curves=curves), resamples=100
        )
        for curves in (tied, whole)
    )
    assert rounded == exact, "what rounding adds makes no winner"


def test_restarts_are_paid_for() -> None:
    recorded = ranking.read(records(RATES))
    free, paid = (
        ranking.races(recorded, rule=halving(5, 4), arms=12, resamples=1, restart_s=s)[0]
        for s in (0.0, 10.0)
    )
    restarts = 5 * (3 + 1)
    assert paid.seconds - free.seconds == pytest.approx(restarts * 10 / (12 * 5 * 80))


def test_crossing_curves_lose_the_winner() -> None:
    """The slowest at first is the best at the end: an early rung cannot know."""
    made = records(RATES)
    late = [
        r
        for r in made
        if r.arm != "a11" or (r.result or {})["curve"][1].__setitem__(3, 0.0) is None
    ]
    recorded = ranking.read(late)
    (early,) = ranking.races(recorded, rule=halving(5, 4), arms=12, resamples=1)
    (later,) = ranking.races(recorded, rule=halving(10, 4), arms=12, resamples=1)
    assert not early.kept and early.regret > 0 and later.kept


def test_noise_makes_early_rungs_dearer_mistakes() -> None:
    recorded = ranking.read(records(RATES, noise=0.03))
    kept = [
        np.mean([r.kept for r in ranking.races(recorded, rule=rule, arms=12, resamples=60)])
        for rule in (halving(5, 4), halving(20, 2))
    ]
    assert kept[0] <= kept[1]


def test_more_arms_than_asked_for_are_drawn_from() -> None:
    recorded = ranking.read(records(tuple(np.linspace(0.01, 0.05, 20))))
    played = ranking.races(recorded, rule=halving(5, 4), arms=12, resamples=30)
    assert all(r.kept for r in played) and all(r.seconds < 0.4 for r in played)
    gaps = measure(recorded, rules=[halving(5, 4)], arms=3, resamples=30)["rules"][0]
    assert gaps["winner_kept"] == 1 and gaps["time_ratio"] > played[0].seconds


def test_runs_that_a_token_budget_ended_have_rungs_of_tokens() -> None:
    """The last arm spends twice as many tokens an update, and makes half as many updates."""
    made = records(RATES)
    for record in made:
        if record.arm == "a11":
            curve = (record.result or {})["curve"]
            curve[:] = [[u, 200.0 * u, s, score] for u, _, s, score in curve if u <= 20]
    recorded = ranking.read(made)
    rules = [r for r in ranking.rules_for(recorded) if isinstance(r, Halving)]
    assert {r.resource for r in rules} == {"generated_tokens"} and recorded.tokens == 4000
    rule = next(r for r in rules if (r.first, r.factor) == (500, 4))
    (race,) = ranking.races(recorded, rule=rule, arms=12, resamples=1)
    # Rungs of 500 and 2000 of 4000: each is one of every arm's evaluations.
    assert race.tokens == pytest.approx((12 * 1 + 3 * 3 + 4) / (12 * 8), rel=0.12)


def test_the_report_names_the_cheapest_safe_rule() -> None:
    data = measure(ranking.read(records(RATES)), resamples=3)
    assert data["enough"] and data["winner_agreement"] == 1
    safe = [r for r in data["rules"] if r["winner_kept"] >= 0.95]
    assert data["best"]["time_ratio"] == min(r["time_ratio"] for r in safe)
    assert data["reached"] == (data["best"]["time_ratio"] <= 0.2)
    assert any(r["rule"]["name"] == "wilcoxon" for r in data["rules"])
    json.dumps(data)
    assert any("a11 leads a10" in str(piece) for piece in text(data))


@pytest.mark.whole
def test_a_rule_that_misses_by_less_than_the_margin_is_named() -> None:
    data = measure(ranking.read(records(RATES, noise=0.05)), resamples=40, margin=0.5)
    near = data["best_within_margin"]
    assert near["time_ratio"] == min(r["time_ratio"] for r in data["rules"])
    assert all(r["within_margin"] == 1 for r in data["rules"])


def test_a_small_study_is_measured_and_said_to_be_small() -> None:
    data = measure(ranking.read(records(RATES[:3], seeds=2)), resamples=2)
    assert not data["enough"] and not data["reached"]
    assert any("3 arms and 2 seeds" in line for line in data["limits"])


def test_runs_that_cannot_be_used_are_named() -> None:
    made = records(RATES[:4])
    made[0] = RunRecord(
        **{f: getattr(made[0], f) for f in ("run_id", "study", "arm", "seed", "tags", "params")},
        status="stopped",
        result=made[0].result,
    )
    recorded = ranking.read(made)
    assert recorded.seeds == [1, 2, 3, 4] and "a00/0: stopped" in recorded.left_out[0]


def test_too_little_says_what_is_needed() -> None:
    with pytest.raises(ConfigError, match="3 and 2 or more"):
        ranking.read(records(RATES[:2]))
    with pytest.raises(ConfigError, match="3 and 2 or more"):
        ranking.read(records(RATES, seeds=1))
    with pytest.raises(ConfigError, match="runs of 0 studies"):
        ranking.read([])
    with pytest.raises(ConfigError, match="baseline='x'"):
        ranking.read(records(RATES), baseline="x")
    again = replace(records(RATES)[7], tags={"gfcr.spec_hash": "another"})
    with pytest.raises(ConfigError, match="study t: a01 has finished runs of several specs"):
        ranking.read([*records(RATES), again])
    with pytest.raises(ConfigError, match="resamples=0"):
        measure(ranking.read(records(RATES)), resamples=0)


def test_the_command_reads_run_folders(tmp_path: Path) -> None:
    for record in records(RATES[:3], seeds=2):
        folder = RunFolder(tmp_path / record.study / record.arm / f"seed-{record.seed}-x")
        folder.create(
            RunCard(
                run_id=record.run_id,
                study=record.study,
                arm=record.arm,
                seed=record.seed,
                spec={},
                tags=record.tags,
            )
        )
        ended.end(folder, status="finished", result=record.result or {})
    rule = ("--rule", "halving first=5 factor=3")
    words = ("--folder", tmp_path, "--resamples", "3", *rule, "--json")
    done = gfcr("bench", "ranking", "t", *words)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert len(data["rules"]) == 1 and data["rules"][0]["rule"]["first"] == 5
    assert data["study"] == "t" and data["arms"] == 3


def test_a_committed_entry_is_played_again_without_its_runs():
    done = gfcr("bench", "ranking", "--resamples", "3", "--json", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["study"], data["arms"], data["seeds"]) == ("leaderboard_chain_sum", 12, 5)
    held = entry.read(ROOT / "experiments/leaderboard/chain-sum/entry.json")
    recorded = ranking.read(recomputed.records_of(held))
    assert recorded.baseline == held["baseline"] and not recorded.left_out
    for row in held["rows"]:
        curves = {run["seed"]: [tuple(point) for point in run["curve"]] for run in row["runs"]}
        assert recorded.curves[row["arm"]] == curves
