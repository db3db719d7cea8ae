"""What parts hand over, value by value: where a group, a job or an answer begins to be none.

That a run stops with these words is tested in `test_handed_over`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import PartError, TaskError
from gfcr.ledger import Ledger
from gfcr.loop.checks import (
    check_group,
    check_groups,
    check_judged,
    check_numbers,
    check_recalled,
)
from gfcr.loop.jobs import Rules, check_fits, check_watched
from gfcr.loop.known import Known
from gfcr.stages import Abort, Cap, Halt, Harvest, Job, Plan
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group, Sampling
from tests.cases import over

NAN, INF = float("nan"), float("inf")
LARGEST = float(np.finfo(np.float32).max)


# ---------------------------------------------------------------- groups


def _advantage(group: Group, value: Any) -> Group:
    return group.with_advantages([value] * len(group.rollouts))


@over("dtype", ["float64", "int32", "uint8", "bool"])
def test_real_values_of_any_type_may_be_given_for_tokens(dtype: str) -> None:
    group = make.group([1.0, 0.0])
    given = _advantage(group, np.ones(4, dtype))
    assert check_group(given, before=group, by="filters.a") is given
    given = _advantage(group, LARGEST).with_scores("s", [np.full(4, -LARGEST)] * 2)
    assert check_group(given, before=group, by="filters.a") is given


WRONG: dict[str, tuple[Callable[[Group], Any], str]] = {
    "nothing": (lambda g: None, r"returned NoneType None for group g of prompt 'p0': return the"),
    "another": (
        lambda g: replace(g, id="h"),
        r"group g of prompt 'p0' came back with other .*2",
    ),
    "a rollout less": (
        lambda g: replace(g, rollouts=g.rollouts[1:], signals=g.signals[1:]),
        r"group g of prompt 'p0' came back with other rollouts than its 2: annotate them",
    ),
    "a rewritten one": (
        lambda g: replace(g, rollouts=(replace(g.rollouts[0], text="y"), g.rollouts[1])),
        r"group g of prompt 'p0' came back with other rollouts than its 2",
    ),
    "signals": (
        lambda g: replace(g, signals=g.signals[:1]),
        r"group g of prompt 'p0' came back with 1 signals for 2",
    ),
    "a signal": (
        lambda g: replace(g, signals=(g.signals[0], 7)),
        r"group g of prompt 'p0', rollout g/1: its signal is int 7, not a Signal \(rewards 1, 0\)",
    ),
    "complex": (lambda g: _advantage(g, np.ones(4, complex)), r"type complex128: give one real"),
    "shape": (
        lambda g: _advantage(g, np.ones((4, 1))),
        r"its advantages have shape \(4, 1\) and type float64: give one real number .* its 4 tok",
    ),
    "a token": (
        lambda g: _advantage(g, np.array([1, 2, 1e39, NAN])),
        r"the advantage of its token 2 is 1e\+39, not finite",
    ),
    "a score": (
        lambda g: g.with_scores("s", [0.5, NAN]),
        r"rollout g/1: its score 's' is nan, not finite",
    ),
    "a reward": (lambda g: g.with_rewards([NAN] * 2), "its reward is nan, not a finite number"),
    "a weight": (
        lambda g: g.with_signals([replace(s, weight="1") for s in g.signals]),
        r"its weight is '1', not a finite number",
    ),
    "a value": (
        lambda g: g.with_values(odd="x"),
        r"the values of group g of prompt 'p0' hold 'odd': 'x': give names numbers",
    ),
    "a reason": (
        lambda g: g.with_signals([replace(s, rejected=["long"]) for s in g.signals]),
        r"rollout g/0: it is rejected for list \['long'\]: give the reason as a text",
    ),
    "a group's reason": (
        lambda g: replace(g, rejected=True),
        r"group g of prompt 'p0': it is rejected for bool True: give the reason as a text",
    ),
    "no reason": (
        lambda g: g.reject_rollouts([1], reason=""),
        r"rollout g/1: it is rejected for str '': give the reason as a text",
    ),
}


@over("case", WRONG)
def test_what_is_wrong_with_a_group_is_said_with_its_place(case: str) -> None:
    answer, said = WRONG[case]
    group = make.group([1.0, 0.0])
    with pytest.raises(PartError, match=rf"^strategy\.filters\.a: .*{said}.*\.$"):
        check_group(answer(group), before=group, by="filters.a")


def test_a_reward_changed_behind_its_advantage_is_nobody_s() -> None:
    mapped = _advantage(make.group([1.0, 0.0]), 0.5)
    with pytest.raises(PartError, match=r"filters\.a: .*rollout .*put what changes rewards before"):
        check_group(mapped.with_rewards([0.5, 0.0]), before=mapped, by="filters.a")
    anew = _advantage(mapped.with_rewards([0.5, 0.0]), 0.25)
    assert check_group(anew, before=mapped, by="filters.a") is anew
    lost = mapped.with_rewards([0.5, 0.0]).reject_rollouts([0], reason="out")
    assert check_group(lost, before=mapped, by="filters.a") is lost, "nothing is learned from it"


def test_sixteen_rewards_show_what_a_part_was_given() -> None:
    group = make.group([float(i) for i in range(17)])
    rewards = ", ".join(map(str, range(16)))
    with pytest.raises(PartError, match=rf"not finite \(rewards {rewards}\)"):
        check_group(_advantage(group, NAN), before=group, by="filters.a")


def test_each_group_comes_back_in_its_place() -> None:
    one, two = make.group([1.0], id="a"), make.group([0.0], id="b")
    assert check_groups((one, two), before=[one, two], by="controls.b") == [one, two]
    for wrong in ([two, one], [one], [one, two, two], [one, None]):
        with pytest.raises(PartError, match=r"^strategy\.controls\.b: "):
            check_groups(wrong, before=[one, two], by="controls.b")


def test_what_is_rejected_need_not_be_finite_and_what_is_kept_has_a_reward() -> None:
    group = make.group([1.0, None])
    odd = _advantage(group, NAN)
    for fine in (odd.reject_rollouts([0], reason="x"), odd.reject("x")):
        assert check_group(fine, before=group, by="filters.a") is fine
    kept = group.with_signals([replace(s, rejected=None) for s in group.signals])
    with pytest.raises(PartError, match="rollout g/1: it is unscorable, and kept without a reward"):
        check_group(kept, before=group, by="filters.a")


def test_judged_rewards_are_floats_and_nothing_else_is_changed() -> None:
    group = make.group([1.0, 0.0])
    given = check_judged(group.judged([np.float32(0.25), None]), before=group, by="controls.a")
    assert [r.reward for r in given.rollouts] == [0.25, None]
    assert type(given.rollouts[0].reward) is float
    for wrong in (
        replace(group, rollouts=group.rollouts[:1]),
        replace(group, rollouts=(group.rollouts[0], None)),
        replace(group, rollouts=(group.rollouts[0], replace(group.rollouts[1], text="y"))),
    ):
        with pytest.raises(PartError, match=r"controls\.a: group g of prompt 'p0' came back with"):
            check_judged(wrong, before=group, by="controls.a")
    said = r"^strategy\.controls\.a: group g of prompt 'p0' came back with the reward inf: give fin"
    with pytest.raises(PartError, match=said):
        check_judged(group.judged([None, INF]), before=group, by="controls.a")
    with pytest.raises(PartError, match=r"controls\.a: returned list \[\] for group g of prompt"):
        check_judged([], before=group, by="controls.a")


def test_measurements_have_names_and_are_numbers_finite_or_not() -> None:
    numbers = {"a": INF, "b": NAN, "c": 10**30, "d": np.float32("nan"), "e": True}
    check_numbers(numbers, by="controls.a", what="its metrics")
    wrong: list[Any] = [{1: 0.5}, {"a": "b"}, {"a": 10**400}, [0.5], None, 1.0]
    for given in wrong:
        said = r"^strategy\.controls\.a: its metrics (hold|are) .*: give names numbers"
        with pytest.raises(PartError, match=said):
            check_numbers(given, by="controls.a", what="its metrics")


# ---------------------------------------------------------------- recalled, resumed, planned


MADE = make.rollout(of=make.prompt(0, text="0="))


def rules(*, corrected: bool = False) -> Rules:
    """Of a run that handed out prompts `p0` to `p3`, made `g/0`, and holds `p4` out."""
    known = Known(ledger=Ledger(), heldout=[make.prompt(4, text="4=")])
    known.hand_out([make.prompt(i, text=f"{i}=") for i in range(4)])
    known.keep(
        Harvest(step=0, groups=(make.group_of([MADE]),), aborted=(), asides=()), kept={MADE.id}
    )
    return Rules(sampling=Sampling(max_tokens=9), corrected=corrected, known=known)


def job(number: int = 0, **changes: Any) -> Job:
    given = {"num_samples": 2, "sampling": Sampling(max_tokens=9), **changes}
    return Job(prompt=make.prompt(number, text=f"{number}="), **given)


def plan(*jobs: Any, **changes: Any) -> Plan:
    given: dict[str, Any] = {"num_groups": 1, "target": 1, "in_flight": 0, "missing": 1, **changes}
    return Plan(jobs=jobs, **given)


def test_what_is_recalled_is_complete_and_was_made() -> None:
    group, known = make.group_of([MADE]), rules().known
    whole = MADE
    found = check_recalled(iter([whole]), group=group, known=known, by="replays.a")
    assert found == [whole]
    cut = replace(whole, finish=FinishReason.ABORTED)
    said = r"^strategy\.replays\.a: recalled for group g: rollout g/0 is incomplete \(finish=abort"
    with pytest.raises(PartError, match=said):
        check_recalled([cut], group=group, known=known, by="replays.a")
    with pytest.raises(PartError, match="rollout x is none that this run made, or one"):
        check_recalled([replace(whole, id="x")], group=group, known=known, by="replays.a")


def test_only_jobs_that_are_new_in_a_plan_are_looked_at() -> None:
    old, fine = job(num_samples=0), job()
    given = plan(old, fine)
    assert rules().check(given, before=[old], by="controls.a") is given
    with pytest.raises(PartError, match="num_samples=0"):
        rules().check(given, before=[fine], by="controls.a")


HELDOUT = make.prompt(4, text="4=")
BAD_JOBS: dict[str, tuple[Any, str]] = {
    "no job": ("mine", "planned str 'mine': make jobs with"),
    "no prompt": (replace(job(), prompt="1="), "planned Job .*: make jobs with"),
    "held out": (replace(job(), prompt=HELDOUT), "a job for prompt 'p4', which is held out"),
    "its tokens": (
        replace(job(), prompt=replace(HELDOUT, id="p0")),
        "a job for prompt 'p0', which is held out",
    ),
    "not drawn": (job(7), "a job for prompt 'p7', which is none that `view.draw` gave"),
    "no samples": (
        job(num_samples=0),
        "for prompt 'p0' with num_samples=0: give an integer",
    ),
    "a note": (job(notes={"a": "b"}), "the notes of a job for 'p0' hold 'a': 'b': give names"),
    "an unknown": (
        job(resume=(replace(MADE, id="g/3"),)),
        "job for prompt 'p0' that resumes what cannot be continued: rollout g/3 is none that",
    ),
    "another's": (
        job(1, resume=(MADE,)),
        "resumes what cannot be continued: rollout g/0 answers prompt 'p0', not 'p1'",
    ),
    "notes of its own": (job(notes=[0.5]), r"notes of a job for 'p0' are list \[0.5\]: give names"),
    "what to resume": (job(resume=None), "for prompt 'p0' with resume=None: give its rollouts"),
    "no rollout": (job(resume=("mine",)), "cannot be continued: str 'mine' is no Rollout"),
    "a law": (
        job(sampling=Sampling(max_tokens=9, top_k=3)),
        r"for prompt 'p0' with sampling top_k=3 \(run: 0\)\. The loss takes the run's",
    ),
}


@over("case", BAD_JOBS)
def test_a_job_that_cannot_be_trained_on_is_refused_whoever_brings_it(case: str) -> None:
    bad, said = BAD_JOBS[case]
    own, fine = rules(), job()
    with pytest.raises(PartError, match=rf"^strategy\.controls\.a: .*{said}"):
        own.check(plan(fine, bad), before=[], by="controls.a")
    with pytest.raises(PartError, match=rf"^strategy\.controls\.b: .*{said}"):
        own.check_selected([fine, bad], num=2, by="controls.b")
    with pytest.raises(PartError, match=rf"^strategy\.controls\.c: .*{said}"):
        own.check_allocated([fine, bad], before=[fine, bad], by="controls.c")


@over(
    ("changes", "said"),
    [
        ({"num_groups": -1}, "planned num_groups=-1: give an integer from 0 to 1000000"),
        ({"num_groups": 1.5}, "planned num_groups=1.5: give an integer from 0 to"),
        ({"target": 0}, "planned target=0: give an integer from 1 to 1000000"),
        ({"target": 2_000_000}, "planned target=2000000: give an integer from 1 to"),
    ],
)
def test_a_plan_says_how_many_groups_it_wants(changes: Any, said: str) -> None:
    fine = plan(num_groups=0)
    assert rules().check(fine, before=[], by="controls.a") is fine
    with pytest.raises(PartError, match=rf"^strategy\.controls\.a: {said}"):
        rules().check(plan(**changes), before=[], by="controls.a")
    with pytest.raises(PartError, match=r"^strategy\.controls\.a: returned int 3 for a plan"):
        rules().check(3, before=[], by="controls.a")


def test_as_many_prompts_are_selected_and_allocated_as_asked_for() -> None:
    jobs = [job(0), job(1)]
    assert rules().check_selected(jobs, num=2, by="controls.b") is jobs
    with pytest.raises(PartError, match=r"^strategy\.controls\.b: selected 2 prompts of the 3 ask"):
        rules().check_selected(jobs, num=3, by="controls.b")
    with pytest.raises(PartError, match=r"^strategy\.controls\.c: returned 1 jobs for 2: return"):
        rules().check_allocated(jobs[:1], before=jobs, by="controls.c")


def test_an_allocator_changes_samples_caps_and_budgets_alone() -> None:
    partial = MADE
    old = [job(0, resume=(partial,)), job(1)]
    fine = [replace(j, num_samples=7, priority=3, notes={"a": 1.0}) for j in old]
    assert rules().check_allocated(fine, before=old, by="controls.c") is fine
    for wrong in (
        [old[0], replace(old[1], prompt=old[0].prompt)],
        [replace(old[0], resume=()), old[1]],
        [replace(old[0], resume=(replace(partial),)), old[1]],
    ):
        with pytest.raises(PartError, match=r"^strategy\.controls\.c: returned a job for prompt"):
            rules().check_allocated(wrong, before=old, by="controls.c")
    said = "returned a job for prompt 'p1' in the place of one for 'p0', or with other rollouts"
    with pytest.raises(PartError, match=said):
        rules().check_allocated(old[::-1], before=old, by="controls.c")


@over(
    ("law", "corrected", "said"),
    [
        ({}, False, None),
        ({"temperature": 0.5}, True, None),
        ({"temperature": 0.5}, False, r"temperature=0\.5 \(run: 1\.0\)\."),
        ({"temperature": 0.0}, True, r"temperature=0\.0 \(run: 1\.0\)\."),
        ({"top_p": 0.5}, True, r"top_p=0\.5 \(run: 1\.0\)\."),
        ({"top_k": 5}, True, r"top_k=5 \(run: 0\)\."),
        ({"min_p": 0.5}, True, r"min_p=0\.5 \(run: 0\.0\)\."),
        (
            {"top_k": 5, "temperature": 0.5},
            True,
            r"temperature=0\.5 \(run: 1\.0\), top_k=5 \(run: 0\)\.",
        ),
    ],
)
def test_only_another_temperature_above_0_can_be_corrected(
    law: dict[str, Any], corrected: bool, said: str | None
) -> None:
    own, other = rules(corrected=corrected), plan(job(sampling=Sampling(max_tokens=3, **law)))
    if said is None:
        own.check(other, before=[], by="controls.a")
        return
    with pytest.raises(PartError, match=rf"with sampling {said}"):
        own.check(other, before=[], by="controls.a")


def test_prompt_and_longest_rollout_fit_the_context() -> None:
    tokens = len(MADE.prompt.tokens)
    check_fits(job(), max_length=tokens + 9)
    said = rf"prompt 'p0' has {tokens} tokens, which leaves 8 of .*max_length={tokens + 8}"
    with pytest.raises(TaskError, match=rf"^{said} for a rollout of sampling\.max_tokens=9\. "):
        check_fits(job(), max_length=tokens + 8)
    with pytest.raises(TaskError, match=r"^prompt 'p0' has no tokens: give it at least one\."):
        check_fits(replace(job(), prompt=replace(make.prompt(), tokens=())), max_length=99)


def test_a_watcher_answers_with_an_end_a_cap_or_nothing() -> None:
    for fine in (None, Halt(reason="x"), Abort(reason="x"), Cap(max_tokens=0), Cap(max_tokens=9)):
        check_watched(fine, by="controls.a")
    for wrong in (True, "stop", 3):
        said = rf"^strategy\.controls\.a: answered {wrong!r}: return Halt, Abort, Cap or None"
        with pytest.raises(PartError, match=said):
            check_watched(wrong, by="controls.a")
    for most in (-1, 2.5, True):
        bad: Any = Cap(max_tokens=most)  # pyright: ignore[reportArgumentType]
        with pytest.raises(PartError, match=r"^strategy\.controls\.a: answered Cap.*integer >= 0"):
            check_watched(bad, by="controls.a")
