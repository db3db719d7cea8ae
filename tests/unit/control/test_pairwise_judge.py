"""Pairs in both orders: who wins, what is a tie, what is no game."""

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control._bradley_terry import expected_share, strengths
from gfcr.control.judges.games import pairing
from gfcr.control.pairwise_judge import PairwiseJudge
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group
from tests.cases import over
from tests.unit.control.judges.told import Told, group, judged, rewards

SPLIT = "{answer_1}|{answer_2}"
VERDICT = {"1": 1.0, "2": 0.0, "0": 0.5, "?": None}
NAMES = "abcdef"


def judge(said: Any, **values: Any) -> PairwiseJudge:
    """A judge who says `said[one, two]` of a pair."""

    def answer(question: str) -> str:
        one, two = question.split("|")
        return said[one, two] if isinstance(said, dict) else said(one, two)

    return PairwiseJudge(judge=Told(answer=answer), template=SPLIT, **values)


def observed(part: PairwiseJudge, *groups: Group) -> dict[str, float]:
    part.observe(Harvest(step=0, groups=groups, aborted=()), view=make.view())
    return dict(part.metrics())


def brute_force(said: dict[tuple[str, str], str], names: str) -> list[float | None]:
    found: list[float | None] = []
    for one in names:
        games: list[float] = []
        for two in names.replace(one, ""):
            forth, back = VERDICT[said[one, two]], VERDICT[said[two, one]]
            if forth is not None and back is not None:
                mine = {(1.0, 0.0): 1.0, (0.0, 1.0): 0.0}
                games.append(mine.get((forth, back), 0.5))
        found.append(float(np.mean(games)) if games else None)
    return found


verdicts = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.sampled_from("112220?"), min_size=n * (n - 1), max_size=n * (n - 1)).map(
        lambda words: dict(zip(permutations(NAMES[:n], 2), words, strict=True))
    )
)


@settings(max_examples=150, deadline=None)
@given(verdicts)
def test_rewards_are_the_win_rates_counted_by_hand(said: dict[tuple[str, str], str]) -> None:
    names = NAMES[: round(len(said) ** 0.5 + 0.51)] or "a"
    found = judged(judge(said), group(list(names)))
    expected = brute_force(said, names)
    assert [r is None for r in rewards(found)] == [e is None for e in expected]
    for reward, wanted in zip(rewards(found), expected, strict=True):
        assert reward is None or reward == pytest.approx(wanted)
    for signal in found.signals:
        assert (signal.rejected == "unscorable") == (signal.reward is None)


@settings(max_examples=60, deadline=None)
@given(verdicts, st.randoms(use_true_random=False), st.sampled_from(["win_rate", "bradley_terry"]))
def test_the_order_of_the_rollouts_says_nothing(
    said: dict[tuple[str, str], str], random: Any, scores: Any
) -> None:
    names = list(NAMES[: round(len(said) ** 0.5 + 0.51)] or "a")
    mixed = random.sample(names, len(names))
    one = dict(zip(names, rewards(judged(judge(said, scores=scores), group(names))), strict=True))
    two = dict(zip(mixed, rewards(judged(judge(said, scores=scores), group(mixed))), strict=True))
    assert {n: r is None for n, r in one.items()} == {n: r is None for n, r in two.items()}
    assert all(r is None or r == pytest.approx(two[n]) for n, r in one.items())


def test_a_judge_that_always_says_the_first_gives_ties_alone() -> None:
    part = judge(lambda one, two: "1")
    found = judged(part, group(list("abcd")))
    assert rewards(found) == [0.5] * 4
    metrics = observed(part, found)
    assert (metrics["flip_rate"], metrics["first_share"]) == (1, 1)
    assert (metrics["asked"], metrics["read"], metrics["pairs"]) == (12, 12, 6)


def test_a_judge_with_an_order_of_its_own_never_flips() -> None:
    part = judge(lambda one, two: "1" if one < two else "2")
    found = judged(part, group(list("cabd")))
    assert rewards(found) == pytest.approx([1 / 3, 1, 2 / 3, 0])
    assert observed(part)["flip_rate"] == 0 and part.metrics()["first_share"] == 0.5


def test_bradley_terry_is_of_the_games_that_were_played() -> None:
    part = judge(lambda a, b: "1" if a < b else "2", rounds=2, scores="bradley_terry", prior=0.3)
    names = list("abcdef")
    found = judged(part, group(names))
    games = pairing(6, 2, rng=make.view().rng("pairwise_judge", "g"))
    wins = np.zeros((6, 6))
    for pair in games:
        wins[min(pair), max(pair)] = 1
    assert rewards(found) == pytest.approx(expected_share(strengths(wins, prior=0.3)).tolist())
    assert observed(part)["asked"] == 2 * 6


def test_all_pairs_with_a_weak_prior_are_the_win_rates() -> None:
    said = dict(zip(permutations("abcd", 2), "121120211212", strict=True))
    one = rewards(judged(judge(said), group(list("abcd"))))
    two = rewards(judged(judge(said, scores="bradley_terry", prior=1e-9), group(list("abcd"))))
    assert two == pytest.approx(one, abs=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5))
def test_nobody_meets_twice_or_plays_twice_in_a_round(num: int, rounds: int, seed: int) -> None:
    pairs = pairing(num, rounds, rng=np.random.default_rng(seed))
    assert len({*pairs}) == len(pairs) and {*pairs} <= {*combinations(range(num), 2)}
    played = [sum(i in pair for pair in pairs) for i in range(num)]
    most = num - 1 if not rounds else min(rounds, num - 1)
    assert all(most - num % 2 <= games <= most for games in played)
    assert pairs == pairing(num, rounds, rng=np.random.default_rng(seed))


def test_what_is_no_verdict_is_counted_and_leaves_the_others_their_rewards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said(one: str, two: str) -> str | None:
        return None if "x" in (one, two) else "both are fine" if "y" in (one, two) else "1"

    part = judge(said)
    found = judged(part, group(list("axyb")))
    judged(part, group(list("axyb")))
    assert rewards(found) == [0.5, None, None, 0.5]
    assert [r.error and r.error.partition(":")[0] for r in found.rollouts] == [
        *(None, "judge_gone", "judge_unread", None)
    ]
    metrics = observed(part, found)
    assert (metrics["failed/gone"], metrics["failed/unread"], metrics["read"]) == (12, 8, 4)
    assert len(caplog.records) == 2 and "(unread): the judge said 'both are fine'" in caplog.text


def test_rollouts_that_could_not_be_made_do_not_play() -> None:
    broken = make.rollout(2, reward=None, text="c", finish=FinishReason.ERROR, error="no")
    before = make.group_of([make.rollout(0, text="a"), make.rollout(1, text="b"), broken])
    found = judged(judge(lambda one, two: "1" if one < two else "2"), before)
    assert rewards(found) == [1, 0, None] and found.rollouts[2].error == "no"


def test_an_answer_with_braces_is_an_answer() -> None:
    seen: list[str] = []
    part = PairwiseJudge(judge=Told(answer=lambda q: seen.append(q) or "1"), template=SPLIT)
    judged(part, group(["{answer_2}", "b"]))
    assert seen == ["{answer_2}|b", "b|{answer_2}"]


@over(
    ("said", "verdict"),
    [
        ("Better: 1", 1.0),
        ("1 has 10 steps, 2 has 2. Better: 2", 0.0),
        ("Better: 0.", 0.5),
        ("Better: 12", None),
        ("2.5", None),
        ("", None),
    ],
)
def test_the_last_lone_verdict_is_read(said: str, verdict: float | None) -> None:
    found = judged(judge(lambda one, two: said), group(["a", "b"]))
    assert (rewards(found)[0] is None) == (verdict is None)
    part = judge(lambda one, two: said if one == "a" else {0.0: "1", 1.0: "2"}.get(verdict, "0"))
    if verdict is not None:
        assert rewards(judged(part, group(["a", "b"])))[0] == verdict


def test_the_strategy_asks_every_pair_in_both_orders_and_trains_on_who_wins() -> None:
    pipeline = make.pipeline(strategies.load("pairwise_grpo", group_size=4), prompts=3)
    batch = pipeline.next_batch()
    metrics = batch.metrics
    assert len(batch.asides) == metrics["controls.judge/asked"] == 3 * 12
    assert 0 < metrics["controls.judge/read"] < metrics["controls.judge/asked"]
    found = [r for g in batch.groups for r in g.rollouts]
    scored = [float(r.reward) for r in found if r.reward is not None]
    assert any(0 < r < 1 for r in scored) and all(0 <= r <= 1 for r in scored)
    lost = [r for r in found if r.reward is None]
    assert all((r.error or "").startswith("judge_unread") for r in lost)
    assert metrics.get("unscorable/judge_unread", 0) == len(lost)
    assert pipeline.tokens()["aside:judge"] > 0 and pipeline.tokens()["remainder"] == 0


def test_two_judges_or_one_rollout_are_refused() -> None:
    plan = strategies.load("self_judge", controls={"pairs": {"name": "pairwise_judge"}})
    with pytest.raises(ConfigError, match=r"strategy\.controls\.judge: .*controls\.pairs"):
        plan.check()
    alone = strategies.load("spo", controls={"pairs": {"name": "pairwise_judge"}})
    with pytest.raises(ConfigError, match=r"controls\.pairs needs 2 rollouts or more"):
        alone.check()


@over(
    ("values", "told"),
    [
        (
            {"template": "{answer_1}"},
            r"pairwise_judge\.template='\{answer_1\}' has no \{answer_2\}",
        ),
        ({"pattern": "["}, r"pairwise_judge\.pattern='\[' is no pattern"),
        ({"pattern": "1"}, r"pairwise_judge\.pattern='1' has 0 groups"),
        ({"first": "A", "second": "A"}, "give three different verdicts"),
        ({"prior": 0.0}, r"PairwiseJudge\.prior=0"),
    ],
)
def test_what_cannot_be_asked_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PairwiseJudge(**values)
