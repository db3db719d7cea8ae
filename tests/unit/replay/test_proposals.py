"""What was proposed is asked, and where it came from."""

from collections import Counter

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError, TaskError
from gfcr.handles import kind_of, role_of
from gfcr.replay.proposals import Proposals
from gfcr.stages import Harvest
from gfcr.tasks.chain_sum import ChainSum
from gfcr.testing import factories as make
from gfcr.types import Prompt
from tests.unit import sums


def posed(number: int, *, kind: str = "even") -> Prompt:
    return Prompt(
        id=f"posed:{number}",
        tokens=make.CODEC.prompt(f"{number}="),
        text=f"{number}=",
        answer="7",
        meta={"kind": kind, "proposed_by": "g/0", "rate": 1.0},
    )


def harvest(*prompts: Prompt) -> Harvest:
    asides = [make.rollout(i, of=p, role="solve") for i, p in enumerate(prompts)]
    return Harvest(step=0, groups=(), aborted=(), asides=tuple(asides))


def test_roles_and_kinds_are_asked_alike_often() -> None:
    part, view = Proposals(references=2), make.view()
    prompts = [*part.select(6, view=view), *part.select(10, view=view)]
    cells = Counter((role_of(p), kind_of(p)) for p in prompts)
    assert set(cells.values()) == {4} and len(cells) == 4
    one = Proposals(only="odd").select(8, view=view)
    assert Counter((role_of(p), kind_of(p)) for p in one) == {
        ("propose", "odd"): 4,
        ("solve", "odd"): 4,
    }


def test_new_problems_are_asked_once_before_all_others_in_order() -> None:
    part, view = Proposals(), make.view()
    part.select(1, view=view)
    part.store(harvest(posed(8001), posed(8001), posed(8002), posed(8003, kind="odd")), view=view)
    assert part.metrics() == {"kept": 67, "new": 3}
    asked = [p.text for p in part.select(8, view=view) if role_of(p) == "solve"]
    assert asked[:3] == ["8001=", "8003=", "8002="] and part.metrics()["new"] == 0
    part.store(harvest(posed(8002)), view=view)
    assert part.metrics() == {"kept": 67, "new": 0}, "it is known"


def test_the_latest_are_kept_and_shown() -> None:
    part, view = Proposals(capacity=2, references=5, only="even"), make.view()
    part.select(1, view=view)
    part.store(harvest(*map(posed, (8001, 8002, 8003))), view=view)
    assert [p.text for p in part.kept["even"]] == ["8002=", "8003="]
    (asked,) = [p for p in part.select(2, view=view) if role_of(p) == "propose"]
    assert sorted(asked.text.removeprefix("?+").split(",")) == ["8002", "8003"]


def test_only_what_was_proposed_is_kept() -> None:
    part, view = Proposals(), make.view()
    part.select(1, view=view)
    aside = make.rollout(of=posed(8001), role="judge")
    given = make.rollout(of=make.prompt(), role="solve")
    part.store(Harvest(step=0, groups=(), aborted=(), asides=(aside, given)), view=view)
    assert part.metrics() == {"kept": 64, "new": 0}


def test_in_a_run_a_problem_proposed_in_one_update_is_trained_on_in_the_next() -> None:
    def said(prompt: str, slot: str) -> str:
        return "1+1" if prompt.startswith("?") else "2"

    run = sums.run(strategies.load("absolute_zero", samples=2), said, prompts=4)
    made = [run.next_batch() for _ in range(2)]
    first, second = ({s.rollout.prompt.text for s in b.samples} for b in made)
    assert "1+1=" not in first and "1+1=" in second
    (problem,) = {g.prompt.id for g in made[1].groups if g.prompt.text == "1+1="}
    proposer = made[1].groups[[g.prompt.id for g in made[1].groups].index(problem)].prompt.meta
    assert proposer["proposed_by"] in {r.id for g in made[0].groups for r in g.rollouts}


def test_a_task_that_cannot_be_asked_says_so() -> None:
    with pytest.raises(TaskError, match="for problems of no kind"):
        make.pipeline(strategies.load("absolute_zero"), task=ChainSum(num_train=8)).next_batch()
    with pytest.raises(TaskError, match=r"only='x'.*even, odd"):
        Proposals(only="x").select(1, view=make.view())
    with pytest.raises(TaskError, match="of 1 training prompts none is of kind"):
        Proposals(begin=1).select(1, view=make.view())


def test_it_is_refused_where_no_part_has_proposals_tried() -> None:
    with pytest.raises(ConfigError, match="no part has the proposals tried"):
        strategies.load("absolute_zero", controls={"learnability": None}).check()
