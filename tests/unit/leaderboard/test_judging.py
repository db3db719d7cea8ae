"""Verdicts are corrected for all that was compared, and none is given without equal terms."""

from dataclasses import replace
from math import nan

import numpy as np

from gfcr.leaderboard.judging import Terms, corrected, judged, versus_of, without_rank
from gfcr.leaderboard.measure import budget_of
from gfcr.leaderboard.readings import Compared, compared
from gfcr.leaderboard.rows import Versus
from gfcr.stats import Comparison, Interval, holm
from tests.cases import over
from tests.records import held, rowed


def found(p_value, *, pairs=5, value=0.5):
    span = Interval(value=value, low=value - 0.01, high=value + 0.01)
    one = Comparison(
        pairs=pairs, difference=span, inner=span, p_value=p_value, detectable=0.1, improves=0.5
    )
    return Compared(shown=one, readings=(one,), start=None)


def test_p_values_are_holm_s_among_all_comparisons():
    told = {"b": found(0.001), "c": found(0.02, pairs=2), "d": None}
    told |= {"once": found(0.001, pairs=1), "unranked": found(0.001)}

    def among(comparisons):
        ranked = {"b", "c", "d", "once"}
        return corrected(told, ranked=ranked, comparisons=comparisons)

    assert among(2) == dict(zip("bc", holm([0.001, 0.02]), strict=True))
    assert among(5) == dict(zip("bc", holm([0.001, 0.02, 1, 1, 1])[:2], strict=True))
    assert among(5) == {"b": 0.005, "c": 0.08}


def test_an_arm_without_a_corrected_p_value_has_no_verdict():
    ahead = found(0.001)
    better = Versus(comparison=ahead.shown, p_adjusted=0.004, verdict="better")
    assert versus_of(ahead, p_value=0.004, margin=0.02) == better
    none = Versus(comparison=ahead.shown, p_adjusted=1.0, verdict="inconclusive")
    assert versus_of(ahead, p_value=None, margin=0.02) == none
    level = found(0.9, value=0.0)
    assert versus_of(level, p_value=1.0, margin=0.02).verdict == "equivalent"
    assert versus_of(level, p_value=None, margin=0.02).verdict == "inconclusive"


def test_a_row_keeps_the_first_reason_why_it_has_no_rank_and_notes_all():
    row = rowed("b", rank=1, notes=("n",))
    assert without_rank(row, reasons=[]) is row
    once = without_rank(row, reasons=["x", "y"])
    assert once == replace(row, rank=None, unranked="x", notes=("n", "x", "y"))
    assert without_rank(once, reasons=["z"]).unranked == "x"


LUCK = np.random.default_rng(1).random((4, 6, 8))


def ran(arm, scores, *, before=None, tokens=100, compares=""):
    """Runs of an arm with these scores by seed and prompt."""
    starts = np.full_like(scores, 0.5) if before is None else before
    return [
        replace(
            held(
                arm,
                seed,
                **{
                    when: {"per_prompt": {f"p{i}": float(x) for i, x in enumerate(row)}}
                    for when, row in (("before", starts[seed]), ("after", scores[seed]))
                },
                **{"updates": tokens, "wall_s": 9.0, "tokens": {"generated": tokens}},
            ),
            tags={"gfcr.compares": compares},
        )
        for seed in range(len(scores))
    ]


def table(arms, *, comparisons=None, margin=0.02):
    rows = [rowed(arm, rank=0, notes=(f"of {arm}",)) for arm in arms]
    count = len(arms) - 1 if comparisons is None else comparisons
    study = Terms(baseline="a", margin=margin, limits=(0.0, 1.0), comparisons=count)
    return {row.arm: row for row in judged(rows, arms=arms, study=study)}


BASE, LEVEL = LUCK[0] / 2, LUCK[1] / 2
STUDY = {"a": ran("a", BASE), "b": ran("b", BASE + 0.4), "c": ran("c", LEVEL)}


def versus(arm, p_values, *, margin=0.02, same_start=True, base=None):
    pair = compared(
        STUDY[arm] if base is None else base[arm],
        baseline=(base or STUDY)["a"],
        limits=(0.0, 1.0),
        same_start=same_start,
    )
    return versus_of(pair, p_value=p_values.get(arm), margin=margin)


def test_every_arm_but_the_baseline_is_compared_with_it_on_the_study_s_terms():
    for margin, comparisons in ((0.02, 2), (1.0, 2), (0.02, 9)):
        rows = table(STUDY, margin=margin, comparisons=comparisons)
        pairs = {arm: compared(STUDY[arm], baseline=STUDY["a"], limits=(0, 1)) for arm in "bc"}
        adjusted = corrected(pairs, ranked="bc", comparisons=comparisons)
        assert repr(rows["a"]) == repr(rowed("a", rank=0, notes=("of a",)))
        for arm in "bc":
            assert rows[arm].versus == versus(arm, adjusted, margin=margin)
            assert (rows[arm].rank, rows[arm].notes) == (0, (f"of {arm}",))
        assert rows["b"].versus.verdict == "better"
    assert table(STUDY, margin=1.0)["c"].versus.verdict == "equivalent"


def test_an_arm_with_another_budget_has_no_rank_and_no_verdict():
    arms = {**STUDY, "b": ran("b", BASE + 0.4, tokens=200)}
    row = table(arms)["b"]
    (why,) = budget_of(arms["b"], baseline=arms["a"]).unequal
    assert (row.rank, row.unranked, row.notes) == (None, why, ("of b", why))
    assert (row.versus.verdict, row.versus.p_adjusted) == ("inconclusive", 1.0)
    near = [replace(r, result={**r.result, "updates": 300}) for r in STUDY["b"]]
    (told,) = budget_of(near, baseline=STUDY["a"]).told
    row = table({**STUDY, "b": near})["b"]
    assert (row.rank, row.notes, row.versus.verdict) == (0, ("of b", told), "better")


def test_an_arm_that_began_elsewhere_has_no_rank_unless_models_are_compared():
    starts = LUCK[2] / 4
    for compares, ranked in (("", False), ("engine.dtype", False), ("engine.dtype model", True)):
        arms = {
            "a": ran("a", BASE, before=starts, compares=compares),
            "b": ran("b", BASE + 0.4, before=starts + 0.3, compares=compares),
        }
        row = table(arms)["b"]
        note = "before training 48 of 48 held-out scores differ from a's at the same seeds, by "
        note += "+0.300 in the mean"
        why = f"it did not begin with the baseline's policy: {note}"
        assert row.notes == ("of b", note if ranked else why)
        assert (row.rank, row.unranked) == ((0, "") if ranked else (None, why))
        assert row.versus.verdict == ("better" if ranked else "inconclusive")


def test_a_start_that_chance_explains_is_noted_and_the_gain_must_show_too():
    before = np.full_like(BASE, 0.5)
    before[0, :3] = 1.0, 0.9, 0.0
    arms = {"a": ran("a", BASE), "b": ran("b", BASE + LUCK[3] / 2, before=before)}
    row = table(arms)["b"]
    pair = compared(arms["b"], baseline=arms["a"], limits=(0, 1))
    assert row.versus.p_adjusted == pair.p_value > pair.shown.p_value
    assert row.rank == 0 and row.versus.verdict == "better"
    assert row.notes[1:] == (
        compared(arms["b"], baseline=arms["a"], limits=(0, 1)).start.note("a"),
    )


def test_an_arm_without_a_seed_of_the_baseline_s_is_not_compared():
    arms = {"a": ran("a", BASE)[:3], "b": ran("b", BASE + 0.4)[3:]}
    row = table(arms)["b"]
    assert row.versus is None and row.notes == ("of b", "no seed in common with a")


@over(("comparisons", "noted"), [(1, False), (2000, True)])
def test_what_only_many_comparisons_explain_is_said(comparisons, noted):
    arms = {"a": ran("a", BASE), "b": ran("b", BASE + (LUCK[3] - 0.3) / 2)}
    row = table(arms, comparisons=comparisons)["b"]
    assert row.versus.comparison.p_value < 0.05
    by_chance = "the interval excludes 0, but among so many arms one does so by chance too often"
    assert row.notes[1:] == ((by_chance,) if noted else ())
    assert row.versus.verdict == ("inconclusive" if noted else "better")
    level = table({"a": ran("a", BASE), "b": ran("b", LEVEL)}, comparisons=comparisons)["b"]
    assert level.versus.comparison.p_value > 0.05 and level.notes == ("of b",)
    assert nan not in (level.versus.p_adjusted, row.versus.p_adjusted)
