"""What an undecided question is worth, and what R-Zero learns from."""

from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.handles import PROPOSE, role_of
from gfcr.strategy import Strategy
from tests.unit import sums

PROPOSED = ("1+1", "1+1", "7+2", "x")
ANSWERS = {"1+1=": "2255", "7+2=": "9991"}


def plan(**changes: Any) -> Strategy:
    knobs = {"samples": 4, "group_size": 4, "propose_for": 1, "solve_for": 2, "only": "low"}
    return strategies.load("r_zero", **{**knobs, "distance": 0.3, **changes})


def said(prompt: str, slot: str) -> str:
    if prompt.startswith("?"):
        return PROPOSED[int(slot.removeprefix("/"))].replace("x", "+")
    answers = ANSWERS.get(prompt, "7778")
    return answers[int(slot.rpartition("solve")[2].removeprefix("/") or slot[1:]) % 4]


def test_a_question_is_worth_its_doubt_less_its_share_of_the_group() -> None:
    run = sums.run(plan(), said, prompts=2)
    for group in run.next_batch().groups:
        assert role_of(group.prompt) == PROPOSE and group.prompt.text == "?0#"
        # Two of one kind of four; 3/4 agree on the third; the last is no question.
        assert group.raw_rewards_N == pytest.approx([0.5 - 0.5, 0.5 - 0.5, 0.25 - 0.25, -1])


def test_then_it_learns_what_most_answer_where_most_but_not_all_do() -> None:
    run = sums.run(plan(), said, prompts=2)
    run.next_batch()
    made = run.next_batch()
    texts = [g.prompt.text for g in made.groups]
    assert texts == ["1+1=", "7+2="], "what was proposed comes first"
    assert made.groups[0].raw_rewards_N.tolist() == [1, 1, 0, 0], "2 and 5 as often: 2 came first"
    assert made.groups[1].raw_rewards_N.tolist() == [1, 1, 1, 0]
    assert made.metrics["controls.majority_vote/agrees"] == 1
    assert "controls.uncertainty/proposed" not in made.metrics


def test_questions_that_all_agree_on_teach_nothing() -> None:
    run = sums.run(plan(), lambda p, slot: said(p, slot) if p.startswith("?") else "7", prompts=2)
    assert (run.next_batch().groups[0].raw_rewards_N[:3] < 0).all(), "min(1, 0) - its share"
    made = run.next_batch()
    assert [g.rejected for g in made.groups] == ["band_pass"] * 2 and not made.samples


def test_phases_come_by_turns() -> None:
    run = sums.run(plan(), said, prompts=2)
    roles = [{role_of(g.prompt) for g in run.next_batch().groups} for _ in range(6)]
    assert roles == [{"propose"}, {"solve"}, {"solve"}] * 2
    with pytest.raises(ConfigError, match="propose_for=0, solve_for=20: give both"):
        strategies.load("r_zero", propose_for=0)


def test_answers_that_never_end_vote_for_nothing() -> None:
    # With a cap of 4 tokens the three of a proposal end, and ten digits do not.
    def endless(prompt: str, slot: str) -> str:
        return said(prompt, slot) if prompt.startswith("?") else "0123456789"

    run = sums.run(plan(), endless, prompts=2, max_tokens=4)
    rewards = run.next_batch().groups[0].raw_rewards_N
    assert np.allclose(rewards, [-0.5, -0.5, -0.25, -1]), "p = 0"
