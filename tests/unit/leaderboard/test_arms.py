"""A row is what its runs say, and no more certain than they are."""

import copy
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from gfcr.leaderboard.arms import row_of, score_of
from gfcr.leaderboard.bias import note_of, shifts_of
from gfcr.leaderboard.measure import cost_of, provenance_of
from gfcr.leaderboard.rows import Pareto
from gfcr.stats import (
    UNBOUNDED,
    bootstrap_interval,
    iqm,
    mean_interval,
    performance_profile,
)
from tests.cases import over
from tests.certified import certified
from tests.heldout import measured
from tests.records import sound

SCORES = (0.25, 0.5, 0.75, 0.625)
RUNS = [sound("a", seed, score=score) for seed, score in enumerate(SCORES)]
TABLE = [[score - 0.25, score + 0.25] for score in SCORES]
THRESHOLDS = np.linspace(0, 1, 51).round(2)


def lossy(*, score, seed):
    """One of the four answers lost, of the prompt `q`."""
    run = sound("a", seed, score=score)
    scores = {"p": score, "q": score}
    run.result["heldout"]["after"] = measured(scores, unscorable={"q": 1}, samples=2)
    return run


def test_a_score_is_the_mean_of_the_runs_with_an_interval_over_seeds_and_prompts():
    found = score_of(RUNS, limits=(0.0, 1.0))
    around, boot = mean_interval(TABLE), bootstrap_interval(np.asarray(TABLE))
    assert (found.value, found.floor, found.iqm) == (np.mean(SCORES), np.mean(SCORES), iqm(SCORES))
    assert (found.low, found.high) == (around.low, around.high)
    assert (found.iqm_low, found.iqm_high) == (boot.low, boot.high)
    declared = [replace(r, result={**r.result, "reward_range": [-1, 2]}) for r in RUNS]
    wide = mean_interval(TABLE, bounds=(-1, 2))
    found = score_of(declared, limits=(-1.0, 2.0))
    assert (found.low, found.high) == (wide.low, wide.high) != (around.low, around.high)
    # Where scores of another arm show that they are no shares, these are none.
    free, found = mean_interval(TABLE, bounds=UNBOUNDED), score_of(RUNS, limits=(0.0, 3.0))
    assert (found.low, found.high) == (free.low, free.high) != (around.low, around.high)


def test_a_lost_answer_may_be_worth_either_limit_and_counts_as_the_lower():
    runs = [lossy(score=score, seed=seed) for seed, score in enumerate(SCORES)]
    limits = (-0.5, 1.5)
    low, high = ([[s, (s + end) / 2] for s in SCORES] for end in limits)
    found = score_of(runs, limits=limits)
    assert found.low == mean_interval(low).low and found.high == mean_interval(high).high
    assert found.floor == np.mean(low) < found.value == pytest.approx(np.mean(SCORES))
    boots = [bootstrap_interval(np.asarray(end)) for end in (low, high)]
    assert (found.iqm_low, found.iqm_high) == (boots[0].low, boots[1].high)
    assert found.iqm_low <= found.iqm <= found.iqm_high
    # The wrong answers have no score, so that those that have one are all right.
    runs = [lossy(score=1.0, seed=seed) for seed in range(4)]
    for run in runs:
        run.result["heldout"]["after"] = measured({"p": 1.0}, unscorable={"q": 2}, samples=2)
    found = score_of(runs, limits=(0.0, 1.0))
    assert found.iqm_low <= found.floor == 0.5 < found.iqm == 1.0 <= found.iqm_high


def test_one_seed_has_a_score_and_no_interval():
    found = score_of(RUNS[:1], limits=(0.0, 1.0))
    assert (found.value, found.floor, found.iqm) == (0.25, 0.25, 0.25)
    assert all(map(isnan, (found.low, found.high, found.iqm_low, found.iqm_high)))
    row = row_of("a", runs=RUNS[:1], limits=(0.0, 1.0))
    assert (row.rank, row.unranked) == (None, "one seed: no interval, no verdict")
    assert row.notes[0] == row.unranked


def test_a_row_holds_what_its_runs_say():
    tags = {"gfcr.generate": "sample", "gfcr.filters": "x+y", "gfcr.controls": "refill"}
    series = {"m": ((0, 1.0),), "empty": ()}
    runs = [replace(r, tags={**r.tags, **tags}, series=series) for r in copy.deepcopy(RUNS)]
    runs[1] = replace(runs[1], series={"n": ((0, 2.0),), "m": ()})
    runs[2].result["heldout"]["after"].update(cut=3)
    del runs[3].result["heldout"]["after"]["cut"]
    row = row_of("arm", runs=runs, limits=(0.0, 1.0))
    assert (row.arm, row.strategy, row.rank, row.unranked) == ("arm", "a", 0, "")
    assert (row.seeds, row.before, row.certificate) == ((0, 1, 2, 3), 0.25, "none")
    assert row.stages == {
        "generate": "sample",
        "filters": "x+y",
        "controls": "refill",
        "replays": "",
    }
    assert (row.answers, row.unscorable, row.cut) == (16, 0, 3)
    assert row.score == score_of(runs, limits=(0.0, 1.0))
    assert str(row.cost) == str(cost_of(runs)) and row.provenance == provenance_of(runs)
    assert (row.versus, row.to_target, row.bias) == (None, None, {})
    assert row.pareto == Pareto(tokens=False, seconds=False)
    assert row.profile == performance_profile(SCORES, thresholds=THRESHOLDS, replicates=1000)
    assert row.curves == {r.seed: r.result["curve"] for r in runs}
    m = series["m"]
    assert row.series == {"m": {0: m, 2: m, 3: m}, "n": {1: ((0, 2.0),)}}
    assert list(row.series) == ["m", "n"]
    assert row.notes == ("19% of held-out answers met evaluation.sampling.max_tokens",)
    bare = replace(RUNS[0], result={k: v for k, v in RUNS[0].result.items() if k != "curve"})
    assert row_of("a", runs=[bare], limits=(0.0, 1.0)).curves == {0: []}


def test_a_profile_is_of_a_thousand_draws():
    scores = [0.25 + 0.5 * (seed * 37 % 101) / 101 for seed in range(13)]
    runs = [sound("a", seed, score=score) for seed, score in enumerate(scores)]
    few, fewer = (
        performance_profile(scores, thresholds=THRESHOLDS, replicates=n) for n in (1000, 1001)
    )
    assert row_of("a", runs=runs, limits=(0.0, 1.0)).profile == few != fewer
    # Of rewards from -2 to 2 the arms may all lie below 0, where they are told apart too.
    below = [sound("a", seed, score=score) for seed, score in enumerate([-1.5, -0.5])]
    told = row_of("a", runs=below, limits=(-2.0, 2.0)).profile
    assert (told.thresholds[0], told.thresholds[-1], len(told.thresholds)) == (-2.0, 2.0, 51)
    assert {*told.share} == {1.0, 0.5, 0.0}


def test_answers_that_nobody_could_score_are_counted():
    runs = [lossy(score=0.5, seed=seed) for seed in range(2)]
    assert row_of("a", runs=runs, limits=(0.0, 1.0)).unscorable == 2
    del runs[1].result["heldout"]["before"]
    assert isnan(row_of("a", runs=runs, limits=(0.0, 1.0)).before)


@over(
    ("state", "rank", "said"),
    [
        ("lossless", 0, None),
        ("biased", None, "its drafter was audited as biased: it samples from another policy than "),
        ("inconclusive", 0, "the audit of its drafter could not tell whether it is lossless"),
        (None, 0, "it speculates without a current losslessness certificate (`gfcr audit`)"),
    ],
)
def test_a_row_tells_its_drafter_s_certificate_and_a_biased_one_has_no_rank(state, rank, said):
    row = row_of("a", runs=[certified(r, state) for r in RUNS[:2]], limits=(0.0, 1.0))
    assert (row.certificate, row.rank) == (state or "uncertified", rank)
    told = said and (said + "it trains" if state == "biased" else said)
    assert row.unranked == (told if rank is None else "")
    assert [note for note in row.notes if "drafter" in note or "speculates" in note] == (
        [told] if told else []
    )


def test_a_shift_is_noted_where_chance_does_not_explain_it():
    def shifted(by):
        series = {
            "length/all/mean": tuple((u, 20.0 + u) for u in range(9)),
            "length/trained/mean": tuple((u, 20.0 + u + by * (1 + u % 2)) for u in range(9)),
        }
        runs = [replace(r, series=series) for r in RUNS[:2]]
        return row_of("a", runs=runs, limits=(0.0, 1.0)), shifts_of(runs)

    row, shifts = shifted(2.0)
    assert row.bias == shifts and row.notes == (note_of("length", shifts["length"]),)
    even, shifts = shifted(0.0)
    assert even.bias == shifts and even.notes == ()
