"""One batch in the making: what planners are told, who judges in which order, and what is in it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gfcr.errors import BatchCannotFill, GfcrError, PartError
from gfcr.loop.collector import check_harvest, check_scorable
from gfcr.stages import Abort, Control, Evaluator, Filter, Harvest, Retire, SampleMore
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group, Sampling
from tests.cases import over
from tests.loops import Maps, Plans, Told, run


def three(*parts: Any, **changes: Any) -> Any:
    """A run of three groups of two, whose rollouts are as long as their group is late."""
    given = {"group_size": 2, "prompts": 3, "max_tokens": 20}
    return run(*parts, **{**given, "script": make.scripted(lambda request: "1" * 9), **changes})


def first_longest(jobs: Any) -> Any:
    """An allocator's answer: the first of a round takes longest."""
    caps = [2 * (len(jobs) - i) for i in range(len(jobs))]
    return [
        replace(job, sampling=replace(job.sampling, max_tokens=cap))
        for job, cap in zip(jobs, caps, strict=True)
    ]


def outcome(plan: Any) -> tuple[int, int, int, int, int]:
    return (plan.num_groups, plan.target, plan.in_flight, plan.missing, len(plan.jobs))


def number_of(group: Group) -> int:
    return int(group.id.split(":")[1])


def rejecting(*numbers: int, reason: str = "mine") -> Maps:
    """A filter that rejects the groups begun in those places."""
    return Maps(answer=lambda g: g.reject(reason) if number_of(g) in numbers else g)


# ---------------------------------------------------------------- planning


def test_planners_are_told_what_is_missing_when_something_is() -> None:
    part = Told(hook="allocate", answer=first_longest)
    batch = three(part, filters={"some": rejecting(2)}).next_batch()
    # After each step of the engine: the last one begun is rejected first, and nothing is begun.
    told = dict.fromkeys(map(outcome, part.of("plan")))
    assert list(told) == [(3, 3, 0, 3, 0), (0, 3, 2, 1, 0), (0, 3, 1, 1, 0), (0, 3, 0, 1, 0)]
    assert len(batch.groups) == 3 and len(batch.accepted) == 2


def test_what_is_rejected_may_be_made_up_for() -> None:
    def refill(plan: Any) -> Any:
        return replace(plan, num_groups=max(plan.num_groups, plan.missing))

    part = Told(hook="plan", answer=refill)
    batch = three(part, filters={"some": rejecting(0, 3)}).next_batch()
    assert [number_of(g) for g in batch.groups] == [0, 1, 2, 3, 4]
    assert [number_of(g) for g in batch.accepted] == [1, 2, 4]
    assert [g.id.split(":")[0] for g in batch.groups] == ["0"] * 5
    first, second = part.of("allocate")[:2]
    assert (len(first), len(second)) == (3, 1)


def test_a_planner_s_target_is_the_batch_s_and_its_jobs_come_first() -> None:
    made: list[Any] = []

    def first(plan: Any, view: Any) -> Any:
        if view.round:
            return plan
        made.append(view.job(view.draw(1)[0], num_samples=3))
        return replace(plan.add(made), target=2)

    part = Told()
    batch = three(Plans(answer=first), part).next_batch()
    (jobs,) = part.of("allocate")
    assert jobs[0] is made[0] and [j.num_samples for j in jobs] == [3, 2, 2]
    assert len(batch.groups) == 2
    assert len({r.group_id for r in batch.aborted}) == 1, "the third is cut"


def test_every_part_is_shown_the_same_run() -> None:
    part, look = Told(), Maps(answer=lambda g: g)
    three(part, filters={"look": look}).next_batch()
    hooks = ("plan", "allocate", "decide", "recall", "map_batch")
    assert {part.shown[hook].step for hook in hooks} == {0}
    assert all(part.shown[hook] is look.shown for hook in hooks)


# ---------------------------------------------------------------- full batches


def test_a_batch_takes_no_more_than_its_target_and_the_rest_is_cut() -> None:
    part = Told(hook="plan", answer=lambda plan: replace(plan, num_groups=plan.num_groups and 5))
    batch = three(part).next_batch()
    assert {r.finish for g in batch.groups for r in g.rollouts} == {FinishReason.STOP}
    assert len(batch.groups) == len(batch.accepted) == 3, "all five were complete at once"
    assert Counter(r.group_id.split(":")[1] for r in batch.aborted) == {"3": 2, "4": 2}


def test_a_batch_that_fails_late_hands_over_all_that_was_cut_and_asked_on_the_side() -> None:
    @dataclass(kw_only=True)
    class Asks(Control, Evaluator):
        async def evaluate(self, group: Any, scratch: Any) -> Any:
            await scratch.aside("1=", role="word", sampling=Sampling(max_tokens=2)).sample()
            return group

    def fails(groups: Any) -> Any:
        raise ValueError("no such column")

    saved: list[Any] = []
    more = Told(hook="plan", answer=lambda plan: replace(plan, num_groups=plan.num_groups and 5))
    broken = Told(hook="map_batch", answer=fails)
    pipeline = three(more, broken, Asks(), sink=saved.append)
    with pytest.raises(PartError, match=r"^strategy\.replays\.p1 failed: ValueError: no such"):
        pipeline.next_batch()
    (batch,) = saved
    assert len(batch.groups) == 3 and len(batch.aborted) == 4
    assert [(a.role, len(a)) for a in batch.asides] == [("word", 2)] * 5


# ---------------------------------------------------------------- judging


def test_groups_are_judged_as_they_come_and_harvested_as_they_were_begun() -> None:
    part = Told(hook="allocate", answer=first_longest)
    batch = three(part).next_batch()
    assert [number_of(g) for g in part.of("decide")] == [2, 1, 0]
    assert [number_of(g) for g in batch.groups] == [0, 1, 2]
    assert [len(g.rollouts[0]) for g in batch.groups] == [6, 4, 2]
    assert [number_of(g) for g in part.of("map_batch")[0]] == [2, 1, 0]


def test_who_retires_a_group_has_the_last_word_on_it() -> None:
    retire = Told(
        hook="decide", answer=lambda g: Retire(reason="easy") if number_of(g) == 1 else None
    )
    after, look = Told(), Maps(answer=lambda g: g)
    batch = three(Told(), retire, after, filters={"look": look}).next_batch()
    assert [g.rejected for g in batch.groups] == [None, "easy", None]
    for hook in ("decide", "recall"):
        assert sorted(map(number_of, after.of(hook))) == [0, 2]
    assert len(look.seen) == 2 and len(after.of("map_batch")[0]) == 2


def test_who_samples_more_is_asked_again_with_them() -> None:
    more = Told(
        hook="decide", answer=lambda g: SampleMore(num_samples=1) if len(g.rollouts) < 4 else None
    )
    after = Told()
    batch = three(more, after).next_batch()
    assert [len(g.rollouts) for g in batch.groups] == [4, 4, 4]
    assert len({r.id for g in batch.groups for r in g.rollouts}) == 12
    assert sorted(len(g.rollouts) for g in more.of("decide")) == [2] * 3 + [3] * 3 + [4] * 3
    assert [len(g.rollouts) for g in after.of("decide")] == [4, 4, 4]


@over(
    ("action", "said"),
    [
        (SampleMore(num_samples=0), r"answered SampleMore.*: give 1 to a million"),
        (SampleMore(num_samples=1, notes={"a": "b"}), r"the notes of SampleMore.* hold 'a': 'b'"),  # pyright: ignore[reportArgumentType]
        ("stop", r"answered 'stop': return SampleMore, Retire or None"),
    ],
)
def test_what_is_no_decision_names_who_made_it(action: Any, said: str) -> None:
    with pytest.raises(PartError, match=rf"^strategy\.replays\.p1: {said}"):
        three(Told(), Told(hook="decide", answer=lambda g: action)).next_batch()


def test_a_group_of_which_nothing_is_kept_is_rejected_for_the_first_reason_there_is() -> None:
    def each(group: Any) -> Any:
        return group.reject_rollouts([1], reason="second").reject_rollouts([0], reason="first")

    def itself(group: Any) -> Any:
        return group.reject_rollouts([0], reason="first").reject("mine")

    cases: dict[str, Callable[[Any], Any]] = {"first": each, "mine": itself}
    for reason, answer in cases.items():
        look = Maps(answer=lambda g: g)
        filters: dict[str, Filter] = {
            "some": Maps(answer=lambda g, a=answer: a(g) if number_of(g) == 0 else g),
            "look": look,
        }
        batch = three(filters=filters).next_batch()
        assert [g.rejected for g in batch.groups] == [reason, None, None]
        assert len(look.seen) == 2, "later filters do not see it"


def test_batch_maps_see_what_is_accepted_one_after_the_other() -> None:
    first = Told(hook="map_batch", answer=lambda groups: [g.with_values(a=1.0) for g in groups])
    second = Told(hook="map_batch")
    second.answer = lambda groups: [g.with_values(b=g.values["a"] + 1) for g in groups]
    batch = three(first, second, filters={"some": rejecting(1)}).next_batch()
    assert [dict(g.values) for g in batch.groups] == [{"a": 1, "b": 2}, {}, {"a": 1, "b": 2}]
    assert first.of("map_batch")[0] is not second.of("map_batch")[0]


def test_who_recalls_sees_what_was_recalled_before() -> None:
    kept: list[Any] = []

    def same(group: Any) -> Any:
        return [r for r in kept if r.prompt == group.prompt]

    first, second = (Told(hook="recall", answer=same) for _ in range(2))
    first.store = lambda harvest, *, view: kept.extend(harvest.groups[0].rollouts)
    first.holds = lambda: [r.id for r in kept]
    pipeline = three(first, second, task=make.CoinTask(num_train=3), script=None, max_tokens=4)
    pipeline.next_batch()
    batch = pipeline.next_batch()
    sizes = sorted(len(g.rollouts) for g in batch.groups)
    assert sizes == [2, 2, 4]
    assert sorted(len(g.rollouts) for g in second.of("recall")[3:]) == sizes
    assert {r.step for g in batch.groups for r in g.rollouts if r.origin == "replay"} == {0}


# ---------------------------------------------------------------- what is refused


def harvest(*groups: Group) -> Harvest:
    return Harvest(step=4, groups=groups, aborted=(), asides=())


def test_a_batch_with_nothing_to_learn_from_says_why() -> None:
    with pytest.raises(BatchCannotFill, match=r"^update 5: no group was completed\.$"):
        check_harvest(harvest())
    broken = make.group_of([make.rollout(i, reward=None, error=f"e{i}") for i in range(2)])
    said = r"^update 5: none of 2 rollouts could be scored; the first error was: e0\. Mend the"
    with pytest.raises(GfcrError, match=said):
        check_harvest(harvest(broken))
    with pytest.raises(GfcrError, match=r"first error was: the verifier gave no reward and no rea"):
        check_harvest(harvest(make.group([None])))
    check_harvest(harvest(broken, make.group([0.0])))


def test_only_fresh_rollouts_tell_whether_the_verifier_works() -> None:
    old = make.rollout(0, reward=None, origin="replay")
    check_scorable([old], where="x")
    check_scorable([], where="x")
    with pytest.raises(GfcrError, match=r"^x: none of 1 rollouts"):
        check_scorable([make.rollout(1, origin="replay"), make.rollout(2, reward=None)], where="x")


def test_a_group_whose_rollouts_are_all_aborted_is_empty() -> None:
    def second(trajectory: Any) -> Any:
        return Abort(reason="x") if trajectory.id.startswith("0:1:") else None

    batch = three(Told(hook="watch", answer=second)).next_batch()
    assert [g.rejected for g in batch.groups if number_of(g) == 1] == ["empty"]
    assert len(batch.aborted) == 2 and len(batch.accepted) == 2
