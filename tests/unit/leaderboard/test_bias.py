"""Whether what was trained on is unlike what was generated."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from gfcr.leaderboard.bias import note_of, shifts_of
from gfcr.leaderboard.rows import Shift
from gfcr.stats import compare, holm
from tests.cases import over
from tests.records import record

NAMES = ("length/all/mean", "length/trained/mean", "reward/all", "reward/trained")
LUCK = np.random.default_rng(2).random((2, 4, 6))
"""Seeds, metrics, updates."""


def runs(*, without=(), odd=None):
    """Two seeds with six updates; `odd` is (seed, metric, update) without a finite value."""
    made = []
    for seed, table in enumerate(LUCK):
        series = {
            name: tuple(
                (step, nan if odd == (seed, name, step) else float(x)) for step, x in enumerate(row)
            )
            for name, row in zip(NAMES, table, strict=True)
            if name not in without
        }
        made.append(record(seed=seed, series=series))
    return made


def paired(updates=range(6)):
    """Comparisons of what was trained on with what was generated, and the means of both."""
    mean = LUCK.mean(0)[:, list(updates)]
    all_length, length, all_reward, reward = mean
    return {
        "length": (all_length, length),
        "difficulty": (1 - all_reward, 1 - reward),
    }


def wanted(updates=range(6)):
    pairs = paired(updates)
    found = {k: compare(t, baseline=g) for k, (g, t) in pairs.items()}
    adjusted = holm([c.p_value for c in found.values()])
    return {
        kind: Shift(
            generated=pytest.approx(pairs[kind][0].mean()),
            trained=pytest.approx(pairs[kind][1].mean()),
            p_value=pytest.approx(p),
        )
        for kind, p in zip(found, adjusted, strict=True)
    }


def test_an_update_s_means_over_seeds_are_one_observation_and_kinds_are_corrected_for():
    assert shifts_of(runs()) == wanted()
    assert len({shift.p_value for shift in shifts_of(runs()).values()} - {1.0}) > 0


@over("seed", [0, 1])
@over("name", NAMES[:2])
def test_updates_that_a_run_has_no_value_for_are_left_out_of_all(seed, name):
    found = shifts_of(runs(odd=(seed, name, 3)))
    rest = [0, 1, 2, 4, 5]
    assert found["length"].trained == pytest.approx(paired(rest)["length"][1].mean())
    assert found["difficulty"].trained == pytest.approx(paired()["difficulty"][1].mean())


@over("kind", ["length", "difficulty"])
def test_a_kind_that_a_run_did_not_record_is_not_known(kind):
    names = NAMES[:2] if kind == "length" else NAMES[2:]
    found = shifts_of([*runs()[:1], *runs(without=names[1:])[1:]])
    (left,) = {"length", "difficulty"} - {kind}
    assert [*found] == [left]
    generated, trained = paired()[left]
    assert found[left].p_value == pytest.approx(compare(trained, baseline=generated).p_value)
    assert shifts_of(runs(without=NAMES)) == {}


SHIFT = Shift(generated=20.0, trained=22.25, p_value=0.01234)


@over(
    ("kind", "changes", "told"),
    [
        ("length", {}, "longer rollouts than it generates (length 22.2 against 20.0, p = 0.0123)"),
        (
            "length",
            {"trained": 18.0, "p_value": 9e-5},
            "shorter rollouts than it generates (length 18.0 against 20.0, p < 0.0001)",
        ),
        (
            "difficulty",
            {"generated": 0.25, "trained": 0.5, "p_value": 1e-4},
            "harder rollouts than it generates (difficulty 0.50 against 0.25, p = 0.0001)",
        ),
        (
            "difficulty",
            {"generated": 0.25, "trained": 0.125},
            "easier rollouts than it generates (difficulty 0.12 against 0.25, p = 0.0123)",
        ),
    ],
)
def test_a_shift_is_told_in_its_own_words(kind, changes, told):
    note = note_of(kind, replace(SHIFT, **changes))
    assert note == f"selection bias: trains on {told}"


def test_a_shift_of_the_same_size_is_neither_longer_nor_harder():
    even = replace(SHIFT, trained=20.0)
    assert "on shorter" in note_of("length", even) and "on easier" in note_of("difficulty", even)
    assert [replace(SHIFT, p_value=p).significant for p in (0.049, 0.05)] == [True, False]
