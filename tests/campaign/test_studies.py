"""Whole studies: identical arms, planted effects, effects as large as the margin, intervals.

`python -m tests.campaign.calibration` makes the tables of these cells.
"""

import numpy as np
import pytest
from scipy.stats import binom

from gfcr import leaderboard
from gfcr.stats import compare, holm, judge
from gfcr.tracking.records import RunRecord
from tests.campaign import judging
from tests.campaign.calibration import ARMS, MARGINS, PROMPTS, SEEDS
from tests.campaign.noises import BINARY, EFFECTS, NOISES, SHARES
from tests.heldout import asked, measured

MISS = 1e-4
"""Chance that a cell at its nominal rate fails; there are some 2,000, many far below it."""


@pytest.fixture
def studies(whole: bool) -> int:
    return 2000 if whole else 150


def at_most(rate: float, *, of: int) -> int:
    return int(binom.ppf(1 - MISS, of, rate))


@pytest.mark.parametrize("noise", NOISES)
def test_identical_arms_are_told_apart_in_one_study_of_twenty_at_most(noise, studies, whole, tried):
    sizes = [(s, p) for s in SEEDS for p in PROMPTS] if whole else [(2, 16), (3, 64), (5, 32)]
    rates = {}
    for seeds, prompts in sizes:
        wrong = judging.false_verdicts(noise, of=studies, seeds=seeds, prompts=prompts, arms=ARMS)
        rates |= {(seeds, prompts, arms): n for arms, n in wrong.items()}
    fell = {cell: n / studies for cell, n in rates.items() if n > at_most(0.05, of=studies)}
    tried("studies", what=f"identical arms: {noise}", cases=len(rates) * studies, fell=len(fell))
    assert not fell


@pytest.mark.parametrize(("begin", "add"), [(3, 1), (5, 5)])
@pytest.mark.parametrize("noise", ["answers, beta(2, 2), runs 0.05", "normal, runs 0.1"])
def test_seeds_added_until_there_is_a_verdict_make_false_ones(noise, begin, add, studies, tried):
    """The warning of the caption and of the docs is about something."""
    of = 5 * studies
    wrong = judging.stopped_when_told(noise, of=of, prompts=64, arms=2, begin=begin, add=add)
    fell = wrong.ever <= 1.5 * wrong.first
    what = f"{begin} seeds and {add} more until a verdict: {noise}"
    tried("studies", what=what, cases=of, fell=int(fell))
    assert not fell


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_difference_of_the_margin_is_rarely_called_equivalent(kind, studies, whole, tried):
    sizes = [(s, p) for s in SEEDS for p in PROMPTS] if whole else [(2, 16), (5, 64), (10, 256)]
    rates = {
        (seeds, prompts, margin): judging.false_equivalence(
            kind, of=studies, margin=margin, seeds=seeds, prompts=prompts
        )
        for seeds, prompts in sizes
        for margin in MARGINS
    }
    fell = {cell: n / studies for cell, n in rates.items() if n > at_most(0.05, of=studies)}
    tried("studies", what=f"the margin, {kind}", cases=len(rates) * studies, fell=len(fell))
    assert not fell


@pytest.mark.parametrize("noise", SHARES)
def test_intervals_stay_inside_and_hold_the_true_share(noise, studies, whole, tried):
    sizes = [(s, p) for s in SEEDS for p in PROMPTS] if whole else [(2, 16), (5, 64)]
    found = {(s, p): judging.coverage(noise, of=studies, seeds=s, prompts=p) for s, p in sizes}
    least = binom.ppf(MISS, studies, 0.95) / studies
    fell = {cell: f for cell, f in found.items() if min(f.share, f.difference) < least or f.outside}
    tried("studies", what=f"intervals: {noise}", cases=len(found) * studies, fell=len(fell))
    assert not fell


@pytest.mark.parametrize(
    ("effect", "arms", "seeds", "prompts"),
    [
        (0.2, 2, 3, 256),
        (0.2, 5, 5, 64),
        (0.1, 5, 5, 256),
        (0.1, 12, 10, 128),
        (0.05, 2, 10, 256),
    ],
)
def test_planted_effects_are_found_as_often_as_the_plan_says(
    effect, arms, seeds, prompts, studies, tried
):
    found = judging.planted(effect=effect, of=studies, arms=arms, seeds=seeds, prompts=prompts)
    low, high = binom.ppf([MISS, 1 - MISS], studies, found.planned) / studies
    # Answers are no normals, Holm's later steps are laxer than the planned first.
    held = low - 0.04 <= found.better <= high + 0.05 and found.worse <= 0.025
    tried(
        "studies",
        what=f"{effect:g} planted, {arms} arms, {seeds} seeds: planned {found.planned:.0%}",
        cases=studies,
        fell=int(not held),
    )
    assert held, found


@pytest.mark.parametrize("noise", ["answers, most near 0 or 1", "normal, runs 0.1"])
def test_the_simulation_says_what_the_leaderboard_s_functions_say(noise):
    rng = np.random.default_rng(0)
    scores = NOISES[noise](rng, shape=(40, 5, 3, 16)).astype(np.float64)
    judged = judging.judge(scores, share=noise in BINARY)
    equal = judged.equivalent(margin=0.3, span=1.0 if noise in BINARY else 0.0)
    for number, study in enumerate(scores):
        found = [compare(arm, baseline=study[-1]) for arm in study[:-1]]
        assert judged.p_value[number] == pytest.approx([c.p_value for c in found], rel=1e-9)
        adjusted = holm([c.p_value for c in found])
        told = [judge(c, p_value=p, margin=0.3) for c, p in zip(found, adjusted, strict=True)]
        assert judged.false(arms=5)[number] == bool({"better", "worse"} & {*told})
        inside = [judge(c, p_value=1.0, margin=0.3) == "equivalent" for c in found]
        assert equal[number].tolist() == inside


def record(arm: str, *, seed: int, answers) -> RunRecord:
    after = measured({f"p{i}": float(a) for i, a in enumerate(answers)})
    return RunRecord(
        run_id=f"{arm}-{seed}",
        study="study",
        arm=arm,
        seed=seed,
        status="finished",
        tags={"gfcr.task": "chain_sum", "gfcr.model": "demo", "gfcr.spec_hash": "a"},
        params={},
        result={
            "strategy": arm,
            "updates": 1,
            "wall_s": 1.0,
            "tokens": {"generated": 10, "trained": 10},
            "curve": [[0, 0, 0.0, 0.5], [1, 10, 1.0, after["accuracy"]]],
            "heldout": {
                "asked": asked(len(answers)),
                "before": measured({f"p{i}": 0.5 for i in range(len(answers))}),
                "after": after,
            },
        },
    )


@pytest.mark.parametrize(("seeds", "prompts"), [(2, 16), (3, 16)])
def test_a_leaderboard_of_identical_arms_names_a_winner_one_time_in_twenty_at_most(
    seeds, prompts, whole, tried
):
    """From records of runs to verdicts: twelve arms, answers of 0 and 1."""
    rng, of, wrong, outside = np.random.default_rng(seeds), 400 if whole else 20, 0, 0
    for _ in range(of):
        answers = NOISES["answers, beta(2, 2)"](rng, shape=(1, 12, seeds, prompts))[0]
        runs = [
            record(f"arm{k}", seed=s, answers=row)
            for k, table in enumerate(answers)
            for s, row in enumerate(table)
        ]
        board = leaderboard.rank(runs, baseline="arm0")
        assert len(board.rows) == 12 and not board.excluded
        told = {row.versus.verdict for row in board.rows if row.versus}
        wrong += bool({"better", "worse"} & told)
        outside += sum(not 0 <= r.score.low <= r.score.high <= 1 for r in board.rows)
        limits = [r.versus.comparison.difference for r in board.rows if r.versus]
        outside += sum(not -1 <= d.low <= d.high <= 1 for d in limits)
    tried("studies", what=f"leaderboards of 12 equal arms, {seeds} seeds", cases=of, fell=wrong)
    assert wrong <= at_most(0.05, of=of) and not outside
