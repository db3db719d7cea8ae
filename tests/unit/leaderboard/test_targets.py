"""What it took to reach a score, and who is on a front."""

from math import isnan, nan

from gfcr.leaderboard.rows import Pareto
from gfcr.leaderboard.targets import end_of, pareto, to_target
from tests.records import record


def climbing(*scores):
    """A run evaluated at updates 0, 1, 2, ... of 100 tokens and 5 seconds each."""
    curve = [[i, 100 * i, 5.0 * i, score] for i, score in enumerate(scores)]
    return record(result={"curve": curve})


def test_a_target_is_reached_at_the_first_evaluation_at_it_and_never_counts_as_for_ever():
    runs = [climbing(0.1, 0.5, 0.9), climbing(0.1, 0.2, 0.5), climbing(0.1, 0.2, 0.3)]
    found = to_target(runs, target=0.5, least=0.0)
    assert (found.reached, found.runs) == (2, 3)
    assert (found.updates, found.tokens, found.seconds) == (2.0, 200.0, 10.0)
    never = to_target(runs, target=0.6, least=0.0)
    assert (never.reached, never.runs) == (1, 3)
    assert all(map(isnan, (never.updates, never.tokens, never.seconds)))
    even = to_target([climbing(0.5), climbing(0.1, 0.5)], target=0.5, least=0.0)
    assert (even.reached, even.updates, even.tokens, even.seconds) == (2, 0.5, 50.0, 2.5)
    alike = [climbing(0.1, 0.2)] * 3
    above = end_of(alike, least=0.0)
    assert above > 0.2, "a mean of equal scores, by rounding"
    assert to_target(alike, target=above, least=0.0).reached == 3


def test_of_seconds_that_some_seeds_lack_nothing_is_known():
    """Python's median of numbers with a NaN depends on their order."""
    runs = [climbing(0.1, 0.5, 0.9), climbing(0.1, 0.5), climbing(0.5)]
    for lacking in range(3):
        lent = [run.result["curve"] for run in runs]
        lent[lacking] = [[*point[:2], nan, point[3]] for point in lent[lacking]]
        found = to_target(
            [record(result={"curve": curve}) for curve in lent], target=0.5, least=0.0
        )
        assert found.updates == 1 and isnan(found.seconds)


def test_the_luck_of_one_evaluation_among_many_reaches_no_target():
    lucky = climbing(0.1, 0.6, 0.2, 0.5, 0.55, 0.3)
    # 0.6 is followed by 0.2: only 0.5 and 0.55 are there together.
    assert to_target([lucky], target=0.5, least=0.0).updates == 3
    assert to_target([climbing(0.1, 0.6, 0.2)], target=0.5, least=0.0).reached == 0
    assert to_target([climbing(0.1, 0.2, 0.6)], target=0.5, least=0.0).updates == 2


def fronts(**points):
    """Arms on the front of tokens, and on that of seconds."""
    found = pareto(points)
    assert {*found} == {*points}
    return [{arm for arm in points if getattr(found[arm], cost)} for cost in ("tokens", "seconds")]


def test_a_front_holds_whom_none_matches_in_one_and_beats_in_the_other():
    assert fronts(a=(0.5, 10, 1), b=(0.6, 20, 9)) == [{"a", "b"}, {"a", "b"}]
    assert fronts(a=(0.5, 10, 9), b=(0.6, 10, 8)) == [{"b"}, {"b"}]
    assert fronts(a=(0.5, 10, 9), b=(0.5, 11, 8)) == [{"a"}, {"b"}]
    assert fronts(a=(0.5, 10, 9), b=(0.5, 10, 9)) == [{"a", "b"}, {"a", "b"}]
    assert fronts(a=(0.5, 10, 1), b=(0.4, 9, 2), c=(0.4, 11, 0)) == [{"a", "b"}, {"a", "c"}]
    assert fronts(a=(0.9, nan, 1), b=(0.4, 9, nan)) == [{"b"}, {"a"}]
    assert pareto({"a": (0.5, 1, nan)}) == {"a": Pareto(tokens=True, seconds=False)}
