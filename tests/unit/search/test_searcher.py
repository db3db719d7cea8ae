"""Searches on functions whose best point is known."""

from typing import Any

import pytest

from gfcr.errors import ConfigError
from gfcr.search.optuna import Searcher
from gfcr.search.space import Search, nested
from tests.cases import over

SPACE: dict[str, Any] = {
    "strategy.size": {"low": 1, "high": 32},
    "trainer.rate": {"low": 1e-5, "high": 1e-1, "log": True},
    "strategy.gate": [None, {"name": "zero_variance"}, "other"],
}


def score(values: dict[str, Any]) -> float:
    """Best at size 20, rate 1e-3 and the mapping."""
    import math

    off = abs(values["strategy.size"] - 20) / 32 + abs(math.log10(values["trainer.rate"]) + 3) / 4
    return -off - (values["strategy.gate"] != {"name": "zero_variance"})


def hunt(search: Search, *, aims: Any = lambda v: [score(v)]) -> tuple[Searcher, list[Any]]:
    searcher, asked = Searcher(search), []
    for _ in range(search.trials):
        number, values = searcher.ask()
        asked.append(values)
        searcher.tell(number, aims(values))
    return searcher, asked


def test_candidates_stay_in_the_space() -> None:
    _, asked = hunt(Search(space=SPACE, trials=30, sampler="random"))
    for values in asked:
        assert 1 <= values["strategy.size"] <= 32 and isinstance(values["strategy.size"], int)
        assert 1e-5 <= values["trainer.rate"] <= 1e-1
    assert {str(v["strategy.gate"]) for v in asked} == {str(g) for g in SPACE["strategy.gate"]}


def test_tpe_finds_better_than_it_began_with() -> None:
    searcher, asked = hunt(Search(space=SPACE, trials=60, seed=1))
    (best,) = searcher.best()
    assert score(asked[best]) == max(map(score, asked)) > max(map(score, asked[:10]))
    late = sum(map(score, asked[-15:])) / 15
    assert late > sum(map(score, asked[:15])) / 15


def test_told_the_same_it_asks_the_same() -> None:
    for sampler in ("tpe", "nsga2", "random"):
        runs = [hunt(Search(space=SPACE, trials=25, sampler=sampler))[1] for _ in range(2)]
        assert runs[0] == runs[1]


def test_several_objectives_give_the_front() -> None:
    def aims(values: dict[str, Any]) -> list[float]:
        return [score(values), float(values["strategy.size"])]

    search = Search(space=SPACE, trials=40, sampler="nsga2", objectives=["score", "tokens"])
    searcher, asked = hunt(search, aims=aims)
    points = [aims(v) for v in asked]
    front = {
        n
        for n, (good, dear) in enumerate(points)
        if not any(g >= good and d <= dear and (g, d) != (good, dear) for g, d in points)
    }
    assert set(searcher.best()) == front


def test_whoever_learns_nothing_is_on_no_front() -> None:
    search = Search(space=SPACE, sampler="nsga2", objectives=["tokens", "score"])
    points = iter([[9.0, 0.7], [1.0, 0.3], [5.0, 0.66], [6.0, 0.65]])
    searcher = Searcher(search)
    for tokens_and_score in points:
        searcher.tell(searcher.ask()[0], tokens_and_score)
    assert searcher.best() == searcher.best(least=float("nan")) == [0, 1, 2]
    assert searcher.best(least=0.65) == [0, 2]
    assert searcher.best(least=0.8) == []


def test_halving_judges_each_against_those_before_it() -> None:
    searcher = Searcher(Search(space=SPACE, sampler="random"), halving=(2, 2))
    scores = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 10.0]
    numbers = [searcher.ask()[0] for _ in scores]
    stopped = [
        searcher.stops(n, score=score, step=2) for n, score in zip(numbers, scores, strict=True)
    ]
    # Optuna's rule: in the better half (rounded down, one at least) of those so far.
    expected = [
        score < sorted(scores[: i + 1])[-max(1, (i + 1) // 2)] for i, score in enumerate(scores)
    ]
    assert stopped == expected and not stopped[0] and not stopped[-1]
    for number, is_stopped in zip(numbers, stopped, strict=True):
        searcher.tell(number, None if is_stopped else [1.0], stopped=is_stopped)
    assert all(not stopped[n] for n in searcher.best())


def test_a_failed_candidate_is_no_best() -> None:
    searcher = Searcher(Search(space=SPACE))
    (bad, _), (good, _) = searcher.ask(), searcher.ask()
    searcher.tell(bad, None)
    searcher.tell(good, [0.1])
    assert searcher.best() == [good]


def test_dotted_keys_are_nested() -> None:
    assert nested({"a.b": 1, "a.c.d": 2, "e": 3}) == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    parted = {"strategy": {"name": "dapo", "group_size": 8}}  # a name, and settings beside it
    assert nested({"strategy": "dapo", "strategy.group_size": 8}) == parted
    assert nested({"strategy.group_size": 8, "strategy": "dapo"}) == parted


BAD = {
    "one value": {"space": {"k": [1]}},
    "a word": {"space": {"k": "x"}},
    "upside down": {"space": {"k": {"low": 2, "high": 1}}},
    "log of 0": {"space": {"k": {"low": 0, "high": 1, "log": True}}},
    "another key": {"space": {"k": {"low": 0, "high": 1, "step": 2}}},
    "nothing": {"space": {}},
    "no trials": {"space": SPACE, "trials": 0},
    "objective": {"space": SPACE, "objectives": ["scores"]},
    "costs alone": {"space": SPACE, "objectives": ["tokens"]},
    "sampler": {"space": SPACE, "sampler": "tp"},
}


@over("case", BAD)
def test_a_bad_search_says_what_is_allowed(case: str) -> None:
    with pytest.raises(ConfigError, match=r"give|Allowed"):
        Search(**BAD[case])
