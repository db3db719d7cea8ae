"""What a proposal is worth to who proposed it, through the loop."""

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.handles import PROPOSE, role_of
from gfcr.strategy import Strategy
from gfcr.types import Group, RolloutBatch
from tests.unit import sums

PROPOSED = ("1+1", "2+2", "3+3", "+", "9+9")
RIGHT = {"1+1=": 4, "2+2=": 1, "3+3=": 0}
"""How many of four answers on the side are right."""


def plan() -> Strategy:
    return strategies.load("absolute_zero", samples=4, references=1, group_size=5)


def said(prompt: str, slot: str) -> str:
    if prompt.startswith("?"):
        return PROPOSED[int(slot.removeprefix("/"))]
    if "solve" not in slot:
        return "0"
    place = int(slot.rpartition("solve")[2]) % 4
    return str(sum(map(int, prompt.strip("=").split("+")))) if place < RIGHT[prompt] else "0"


def batch() -> tuple[RolloutBatch, list[Group]]:
    made = sums.run(plan(), said, prompts=4).next_batch()
    return made, [g for g in made.groups if role_of(g.prompt) == PROPOSE]


def test_it_is_worth_one_less_the_share_solved_and_nothing_at_the_extremes() -> None:
    made, proposals = batch()
    assert len(proposals) == 2 and len(made.groups) == 4
    for group in proposals:
        assert group.raw_rewards_N[:4].tolist() == [0, 0.75, 0, 0], "trivial, 1/4, unsolved, no sum"
        assert np.isnan(group.raw_rewards_N[4]) and group.signals[4].rejected == "not_judged"
    assert all(g.raw_rewards_N.tolist() == [0] * 5 for g in made.groups if g not in proposals)
    assert made.metrics["tokens/aside:solve"] == sum(map(len, made.asides)) > 0


def test_what_became_of_proposals_is_counted() -> None:
    made, _ = batch()
    own = {k.removeprefix("controls.learnability/"): v for k, v in made.metrics.items()}
    assert (own["proposed"], own["valid"], own["fault/form"]) == (10, 0.6, 0.2)
    assert (own["fault/heldout"], own["distinct"], own["kind/low"]) == (0.2, 0.5, 1)
    assert own["trivial"] == own["unsolved"] == pytest.approx(1 / 3)
    assert own["solved"] == pytest.approx(5 / 12)


def test_a_held_out_problem_is_never_asked_nor_blamed() -> None:
    made, _ = batch()
    rollouts = [*(r for g in made.groups for r in g.rollouts), *made.asides]
    assert "9+9" in {r.text for r in rollouts} and "9+9=" not in {r.prompt.text for r in rollouts}
    assert "9+9" not in {s.rollout.text for s in made.samples}


def test_what_breaks_while_a_problem_is_made_is_not_judged() -> None:
    made = sums.run(plan(), lambda prompt, slot: "#", prompts=2).next_batch()
    (group,) = [g for g in made.groups if role_of(g.prompt) == PROPOSE]
    assert np.isnan(group.raw_rewards_N).all()
    assert made.metrics["controls.learnability/fault/failed"] == 1


def test_a_problem_says_where_it_came_from() -> None:
    run = sums.run(plan(), said, prompts=4)
    run.sync((), version=3)
    made = run.next_batch()
    proposers = {r.id: r for g in made.groups for r in g.rollouts}
    for aside in made.asides:
        meta = aside.prompt.meta
        by = proposers[str(meta["proposed_by"])]
        assert aside.role == "solve" and meta["proposed_at"] == 3
        assert aside.prompt.text == f"{by.text}=" and meta["kind"] == "low"
