"""Majority votes: the label, who abstains, and that no reference is read."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.majority_vote import MajorityVote, winner
from gfcr.errors import ConfigError
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over


def voted(texts: list[str], *, origin: Any = "fresh", **knobs: Any) -> Any:
    """An evaluation of a group of these texts, all right by the verifier but the last."""
    pairs, last = enumerate(texts), len(texts) - 1
    rollouts = [make.rollout(i, text=t, reward=float(i < last), origin=origin) for i, t in pairs]
    part = MajorityVote(**knobs)
    run = part.evaluate(make.group_of(rollouts), None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(StopIteration) as done:
        run.send(None)
    return part, done.value.value


@given(st.lists(st.sampled_from(["1", "2", "3", None]), max_size=12))
def test_the_winner_has_most_votes_and_came_first(answers: list[str | None]) -> None:
    label, share = winner(answers)
    votes = Counter(a for a in answers if a is not None)
    if not votes:
        assert (label, share) == (None, 0.0)
        return
    best = [a for a in answers if a is not None and votes[a] == max(votes.values())]
    assert label == best[0] and share == votes[best[0]] / len(answers)


def test_who_answers_as_most_do_is_right() -> None:
    part, group = voted(["#7", " 1#7 ", "#8", "no"], answer=r"#(.*)")
    assert group.raw_rewards_N.tolist() == [1, 1, 0, 0]
    assert group.values["vote_share"] == 0.5
    assert part.metrics() == {"share": 0.5, "abstained": 0.0, "agrees": 1.0}
    again, _ = voted(["#7", " 1#7 ", "#8", "no"], answer=r"#(.*)", origin="replay")
    assert again.metrics() == {"share": 0.5, "abstained": 0.0}, "no verifier has judged these"


def test_the_whole_text_is_the_answer_without_a_pattern_and_the_last_match_with_one() -> None:
    assert voted(["a", "a ", "b"])[1].raw_rewards_N.tolist() == [1, 1, 0]
    group = voted(["#1#2", "#2", "#1"], answer=r"#(\d)")[1]
    assert group.raw_rewards_N.tolist() == [1, 1, 0]


@over(
    ("texts", "least", "judged"),
    [
        (["#1", "#1", "#2", "#3"], 0.5, True),
        (["#1", "#1", "#2", "#3"], 0.51, False),
        (["no", "none", "", "x"], 0.0, False),
        (["#1", "x", "x", "x"], 0.5, False),
    ],
)
def test_it_abstains_below_its_share_and_is_never_0_then(
    texts: list[str], least: float, judged: bool
) -> None:
    part, group = voted(texts, answer=r"#(.*)", least=least)
    assert bool(group.kept_N.any()) == judged == (part.metrics()["abstained"] == 0)
    if not judged:
        assert [r.reward for r in group.rollouts] == [None] * 4
        assert {s.rejected for s in group.signals} == {"not_judged"}


def test_what_failed_votes_for_nothing_and_stays_as_it_is() -> None:
    failed = make.rollout(0, text="#9", reward=None, finish=FinishReason.ERROR, error="broke")
    rollouts = [failed, make.rollout(1, text="#9"), make.rollout(2, text="#8")]
    part = MajorityVote(answer="#(.*)")
    run = part.evaluate(make.group_of(rollouts), None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(StopIteration) as done:
        run.send(None)
    assert [r.reward for r in done.value.value.rollouts] == [None, 1.0, 0.0]
    assert done.value.value.rollouts[0].error == "broke"


@over(("pattern", "said"), [("(", "no regular expression"), ("a", "no group")])
def test_a_pattern_must_have_a_group(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MajorityVote(answer=pattern)


def test_ttrl_trains_on_votes_whatever_the_verifier_says() -> None:
    """The verifier calls nothing right; the votes are for the text's last digit."""
    strategy = strategies.load("ttrl", group_size=8, answer=r"(\d)(?=\D*$)")
    pipeline = make.pipeline(strategy, task=make.CoinTask(rates=(0.0,)))
    batch = pipeline.next_batch()
    assert batch.samples and any(s.advantage_T.any() for s in batch.samples)
    for group in batch.groups:
        rewards = group.raw_rewards_N
        label, share = winner([_digit(r.text) for r in group.rollouts])
        wanted = [float(_digit(r.text) == label) for r in group.rollouts]
        assert label is None or rewards.tolist() == wanted
        assert np.isclose(group.values["vote_share"], share)
    assert batch.metrics["controls.majority_vote/agrees"] == 0


def _digit(text: str) -> str | None:
    digits = [c for c in text if c.isdigit()]
    return digits[-1] if digits else None
