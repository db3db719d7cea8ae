"""Effects of runs made by hand: paired by seed, above 0 where the strategy is better."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.claims.claim import Claim, Measure, Published
from benchmarks.claims.entry import false_discovery
from benchmarks.claims.measures import CALLS, HOW, Measured, drop, least, measure
from gfcr.tracking.records import RunRecord
from tests.cases import over
from tests.heldout import asked, measured
from tests.records import record

PROMPTS = [f"p{n}" for n in range(8)]


def _claim(how: Measure, **more: Any) -> Claim:
    published = Published(size="much", where="elsewhere", source="ours")
    given = {"minimum_effect": 0.1, "published": published, **more}
    return Claim(strategy="a", regime="r", measure=how, **given)


def _run(
    arm: str, seed: int, *, curve: Sequence[tuple[float, ...]] = ((0, 0, 0, 0.0),), **more: Any
) -> RunRecord:
    """A run with a curve of (update, tokens, seconds, score)."""
    scores = more.pop("scores", dict.fromkeys(PROMPTS, 0.5))
    held = {"asked": asked(len(scores)), "after": measured(scores, **more.pop("lost", {}))}
    if before := more.pop("before", None):
        held["before"] = measured(before)
    result = {"curve": [list(p) for p in curve], "heldout": held, "reward_range": [0.0, 1.0]}
    return record(arm, seed, result={**result, **more})


def _found(how: Measure, arm: list[RunRecord], baseline: list[RunRecord]) -> Measured:
    found = measure(_claim(how), arm=arm, baseline=baseline, target=0.5)
    assert found is not None
    return found


def _rising(arm: str, seed: int, *, at: float) -> RunRecord:
    """A run that reaches 0.5 after `at` tokens and ten times as many seconds, and has twice."""
    points = [(0, 0, 0, 0.1), (1, at / 2, 5 * at, 0.4), (2, at, 10 * at, 0.6)]
    return _run(arm, seed, curve=[*points, (3, 2 * at, 20 * at, 0.7)])


def test_scores_are_compared_prompt_by_prompt_and_seed_by_seed() -> None:
    arm = [_run("a", s, scores=dict.fromkeys(PROMPTS, 0.5 + 0.1 * s)) for s in (0, 1)]
    base = [_run("b", s, scores=dict.fromkeys(PROMPTS, 0.25 + 0.1 * s)) for s in (1, 0, 2)]
    found = _found("score_at_tokens", arm, base)
    assert found.seeds == (0, 1)
    assert found.arm == pytest.approx([0.5, 0.6]) and found.baseline == pytest.approx([0.25, 0.35])
    assert found.comparison.difference.value == pytest.approx(0.25)
    assert not found.at_least and not found.at_most


def test_answers_without_a_score_count_against_the_strategy() -> None:
    lost = {"unscorable": {"p0": 1}}
    arm = [_run("a", s, scores=dict.fromkeys(PROMPTS, 1.0), lost=lost) for s in (0, 1)]
    base = [_run("b", s, scores=dict.fromkeys(PROMPTS, 0.0), lost=lost) for s in (0, 1)]
    found = _found("score_at_updates", arm, base)
    # Seven of eight are right for none of seven; of the eighth each has the other's best.
    assert found.comparison.difference.value == pytest.approx(7 / 8 - 1 / 8)
    assert found.at_least and found.score is not None and found.score.at_least


@over(("how", "unit"), [("tokens_to_target", 1.0), ("seconds_to_target", 10.0)])
def test_a_cost_is_paid_by_the_first_evaluation_there(how: Measure, unit: float) -> None:
    arm = [_rising("a", s, at=50 + s) for s in range(3)]
    base = [_rising("b", s, at=100 + 3 * s) for s in range(3)]
    found = _found(how, arm, base)
    assert found.arm == tuple(unit * (50 + s) for s in range(3))
    ratios = [log((100 + 3 * s) / (50 + s)) for s in range(3)]
    assert found.comparison.difference.value == pytest.approx(np.mean(ratios))
    assert found.comparison.p_value == pytest.approx(stats.ttest_1samp(ratios, 0).pvalue)


def test_a_run_that_never_gets_there_bounds_the_effect() -> None:
    never = [_run(arm, 0, curve=[(0, 0, 0, 0.1), (1, 80, 8, 0.2)]) for arm in "ab"]
    there = {arm: [_rising(arm, seed, at=100) for seed in (0, 1)] for arm in "ab"}
    late = _found("tokens_to_target", [never[0], there["a"][1]], there["b"])
    assert late.at_most and not late.at_least
    slow = _found("tokens_to_target", there["a"], [never[1], there["b"][1]])
    assert slow.at_least and not slow.at_most
    # It had spent 80 when it ended: it would have taken that or more.
    assert slow.baseline[0] == 80


def test_all_tokens_and_seconds_of_generation_of_the_run() -> None:
    arm = [_run("a", s, curve=[(4, 60, 9, 0.5)], time={"generate_s": 1.0 + s}) for s in (0, 1)]
    base = [_run("b", s, curve=[(4, 80, 9, 0.5)], time={"generate_s": 2.0 + 2 * s}) for s in (0, 1)]
    assert _found("tokens_saved", arm, base).comparison.difference.value == pytest.approx(
        log(80 / 60)
    )
    saved = _found("generation_saved", arm, base).comparison.difference.value
    assert saved == pytest.approx(log(2))
    base[0] = _run("b", 0, time={})
    assert measure(_claim("generation_saved"), arm=arm, baseline=base, target=0) is None


def test_forward_passes_are_those_of_the_run() -> None:
    arm, base = (
        [_run(n, s, forward_passes=num) for s in (0, 1)] for n, num in (("a", 3), ("b", 4))
    )
    saved = _found("passes_saved", arm, base)
    assert saved.arm == (3, 3) and saved.comparison.difference.value == pytest.approx(log(4 / 3))
    without = [_run("a", 0), _run("a", 1, forward_passes=None)]  # an engine that counts none
    assert measure(_claim("passes_saved"), arm=without, baseline=base, target=0) is None


def test_calls_are_those_of_the_run() -> None:
    def runs(arm: str, *num: float) -> list[RunRecord]:
        curve = tuple(enumerate(num))
        return [replace(_run(arm, s), series={CALLS: curve}) for s in (0, 1)]

    found = _found("calls_saved", runs("a", 10, 30), runs("b", 20, 40))
    assert found.arm == (30, 30) and found.comparison.difference.value == pytest.approx(log(4 / 3))
    assert measure(_claim("calls_saved"), arm=runs("a"), baseline=runs("b", 1), target=0) is None


def test_answers_are_shortened_by_the_tokens_of_all_evaluations() -> None:
    arm, base = (
        [_run(name, seed, tokens={"evaluation": cost}) for seed in (0, 1)]
        for name, cost in (("a", 75), ("b", 100))
    )
    found = _found("answers_shortened", arm, base)
    assert found.comparison.difference.value == pytest.approx(log(100 / 75))
    assert found.arm == (75, 75)


def test_stability_is_the_largest_drop_below_the_best() -> None:
    steps = [0.1, 0.5, 0.3, 0.6, 0.45, 0.7]
    run = _run("a", 0, curve=[(i, i, i, score) for i, score in enumerate(steps)])
    brute = max(steps[i] - steps[j] for j in range(6) for i in range(j + 1))
    assert drop(run) == pytest.approx(brute) == pytest.approx(0.2)
    steady = [_run("a", s, curve=[(0, 0, 0, 0.1), (1, 1, 1, 0.2)]) for s in (0, 1)]
    falling = [_run("b", s, curve=[(0, 0, 0, 0.4), (1, 1, 1, 0.1)]) for s in (0, 1)]
    found = _found("stability", steady, falling)
    assert found.comparison.difference.value == pytest.approx(0.3)


def test_a_target_is_not_reached_by_the_luck_of_one_evaluation() -> None:
    scores = [0.1, 0.6, 0.2, 0.5, 0.55, 0.3]
    lucky = [(i, 10 * i, i, score) for i, score in enumerate(scores)]
    arm = [_run("a", s, curve=lucky) for s in (0, 1)]
    base = [_run("b", s, curve=lucky[:2]) for s in (0, 1)]
    found = _found("tokens_to_target", arm, base)
    # 0.6 is followed by 0.2: only 0.5 and 0.55 are there together.
    assert found.arm == (30, 30)
    # The last evaluation counts by itself.
    assert not found.at_least and found.baseline == (10, 10)


@over("how", [how for how in HOW if how != "calls_saved"])
def test_every_measure_has_the_scores_of_both_arms_beside_it(how: Measure) -> None:
    half = [float(n % 2) for n in range(8)]
    spent = {"forward_passes": 4, "tokens": {"evaluation": 5}, "time": {"generate_s": 2.0}}

    def runs(arm: str, right: Sequence[float]) -> list[RunRecord]:
        scores = dict(zip(PROMPTS, right, strict=True))
        begun = dict.fromkeys(PROMPTS, 0.0)
        curve = [(0, 1, 1, 0.0), (4, 9, 9, float(np.mean(right)))]
        return [_run(arm, s, scores=scores, before=begun, curve=curve, **spent) for s in (0, 1, 2)]

    found = measure(
        _claim(how, margin=0.2), arm=runs("a", half), baseline=runs("b", [1.0] * 8), target=0.1
    )
    assert found is not None and (score := found.score) is not None
    assert score.arm == (0.5,) * 3 and score.baseline == (1.0,) * 3 and score.before == (0.0,) * 3
    assert score.margin == (0.1 if how.startswith("score") else 0.2)
    assert score.difference.value == -0.5 and score.gain.value == 1.0 and not score.at_least
    assert score.curves[0] == (((0, 0.0), (4, 0.5)),) * 3


def test_the_score_s_p_value_is_of_a_loss_of_the_margin() -> None:
    def runs(arm: str, means: Sequence[float]) -> list[RunRecord]:
        # One mean a run, as where no prompts are shared.
        spent = ((0, 4, 4, 0.0),)
        return [_run(arm, s, scores={f"p{s}": mean}, curve=spent) for s, mean in enumerate(means)]

    ours, theirs = [0.50, 0.55, 0.53, 0.48], [0.52, 0.54, 0.57, 0.50]
    for margin in (0.001, 0.03, 0.2):
        claim = _claim("tokens_saved", margin=margin)
        found = measure(claim, arm=runs("a", ours), baseline=runs("b", theirs), target=0.5)
        assert found is not None and found.score is not None
        gaps = np.subtract(ours, theirs)
        side = "greater" if gaps.mean() > -margin else "less"
        expected = stats.ttest_1samp(gaps, -margin, alternative=side).pvalue
        assert found.score.p_value == pytest.approx(expected)


def test_one_seed_is_no_measurement() -> None:
    arm, base = [_run("a", 0), _run("a", 1)], [_run("b", 1), _run("b", 2)]
    assert measure(_claim("score_at_tokens"), arm=arm, baseline=base, target=0) is None


def test_a_minimum_is_in_the_unit_of_its_measure() -> None:
    assert least("score_at_tokens", minimum=0.1) == 0.1
    assert least("tokens_saved", minimum=0.5) == pytest.approx(log(2))
    assert least("stability", minimum=0.1) == 0.1


def test_the_false_discovery_rate_is_benjamini_and_hochberg_s() -> None:
    p_values = [0.01, 0.04, 0.03, 0.5]
    by_hand = [0.04, 0.04 * 4 / 3, 0.04 * 4 / 3, 0.5]
    assert false_discovery(p_values) == pytest.approx(by_hand)
    assert false_discovery([]) == []
    assert false_discovery([0.03]) == [0.03]
    rng = np.random.default_rng(0)
    null = rng.random((400, 5))
    # Of true null hypotheses alone, any discovery is false: 5 % of tables have one.
    false = np.mean([min(false_discovery(list(row))) < 0.05 for row in null])
    assert stats.binomtest(int(400 * false), 400, 0.05).pvalue > 0.01
