"""Single-stream policy optimization: the tracker, the curriculum and the advantages."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.single_stream import SingleStream
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Group, RolloutBatch
from tests.cases import over


def visited(part: SingleStream, *rewards: float | None, step: int = 0) -> None:
    group = make.group(rewards)
    part.observe(Harvest(step=step, groups=(group,), aborted=()), view=make.view(step=step))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.integers(0, 40)), max_size=8),
    st.sampled_from(["gap", "lag"]),
)
def test_evidence_is_what_the_recursion_says(visits: list[Any], forget: Any) -> None:
    """Every visit multiplies what was seen before by rho, and adds one answer."""
    part = SingleStream(forget=forget)
    good, bad, step = 0.5, 0.5, 0
    for number, (reward, moved, lag) in enumerate(visits):
        part.moved += moved
        step += lag
        halves = moved / 0.06 if forget == "gap" else lag / 16
        rho = min(max(2.0**-halves, 0.875), 0.96) if number else 0.96
        good, bad = rho * good + reward, rho * bad + 1 - reward
        visited(part, reward, step=step)
    if visits:
        assert part.evidence == {"p0": pytest.approx((good, bad))}
        assert part.value("p0") == pytest.approx(good / (good + bad))
    assert part.value("never seen") == 0.5


def test_forgetting_lies_in_its_bounds() -> None:
    part = SingleStream()
    visited(part, 1.0)
    assert part.rho("p0", step=9) == 0.96
    part.moved += 0.06 * np.log2(1 / 0.9)
    assert part.rho("p0", step=9) == pytest.approx(0.9)
    part.moved += 1.0
    assert part.rho("p0", step=9) == 0.875


def test_unscorable_rollouts_say_nothing() -> None:
    part = SingleStream()
    visited(part, None, None)
    assert part.evidence == {} and part.metrics()["tracked"] == 0


def test_the_value_is_of_the_prompt_asked_whatever_it_is_trained_under() -> None:
    """As where a plan is asked for first, by a prompt of its own."""
    part, planned = SingleStream(), make.rollout(0, reward=1.0, of=make.prompt(9))
    group = make.group_of([planned], prompt=make.prompt())
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert list(part.evidence) == ["p0"]


def test_the_baseline_is_the_value_before_the_visit() -> None:
    part = SingleStream()
    visited(part, 1.0, 1.0)
    value = part.value("p0")
    group = part.apply(make.group([1.0, None, 0.0]), view=make.view())
    assert [s.advantage for s in group.signals] == [1 - value, None, -value]
    assert group.values["tracked"] == value > 0.5


def _updates(num: int, **knobs: Any) -> tuple[Any, list[RolloutBatch]]:
    task = make.CoinTask(rates=(0.05, 0.5, 0.95), num_train=48)
    plan = strategies.load("spo", **knobs)
    pipeline = make.pipeline(plan, task=task, prompts=6)
    batches: list[RolloutBatch] = []
    for version in range(num):
        pipeline.sync((), version=version)
        batches.append(pipeline.next_batch())
    return pipeline, batches


def test_advantages_are_normalised_over_the_batch_and_need_no_groups() -> None:
    _, batches = _updates(6)
    for batch in batches:
        assert {len(g.rollouts) for g in batch.groups} == {1}
        own = np.array([s.advantage_T[s.rollout.mask_T][0] for s in batch.samples])
        assert own.mean() == pytest.approx(0, abs=1e-5)
        assert own.std(ddof=1) == pytest.approx(1, abs=1e-2) or not own.any()


@pytest.mark.slow
def test_values_come_to_the_success_rates() -> None:
    pipeline, _ = _updates(80)
    part = pipeline.strategy.filters["single_stream"]
    rates = (0.05, 0.5, 0.95)
    means = [
        np.mean([part.value(i) for i in part.evidence if int(i[1:]) % 3 == kind])
        for kind in range(3)
    ]
    assert means[0] < 0.35 < means[1] < 0.65 < means[2]
    assert len(rates) == len(means)


def test_prompts_that_are_neither_sure_nor_hopeless_come_more_often() -> None:
    """A tracker that knows the rates draws in proportion to sqrt(v (1 - v)) + least."""
    task = make.CoinTask(rates=(0.0, 0.5, 1.0), num_train=300)
    part, view = SingleStream(looked_at=4), make.view(task=task)
    part.evidence = {f"c{i}": ((0.0, 8.0), (4.0, 4.0), (8.0, 0.0))[i % 3] for i in range(300)}
    taken = [p for _ in range(10) for p in part.select(6, view=view)]
    assert len(taken) == 60 and part.metrics()["passed_over"] == 18
    even = np.mean([int(p.id[1:]) % 3 == 1 for p in taken])
    assert even > 0.6  # a third, were they drawn alike


def test_an_epoch_shorter_than_the_candidates_is_drawn_all_the_same() -> None:
    view = make.view(task=make.CoinTask(num_train=3))
    assert len(SingleStream(looked_at=8).select(5, view=view)) == 5
    # Where one ends among them they are as many as ever.
    part, view = SingleStream(looked_at=4), make.view(task=make.CoinTask(num_train=10))
    for _ in range(6):
        assert len(part.select(2, view=view)) == 2 and part.metrics()["passed_over"] == 6


def _last_batch(gap: float) -> Group:
    view = make.view()
    prompt = view.draw(1)[0]
    rollout = make.rollout(of=prompt, length=6)
    sequence = [*prompt.tokens, *rollout.tokens_T.tolist()]
    now_T = view.score([sequence])[0][len(prompt.tokens) - 1 :]
    return make.group_of([make.rollout(of=prompt, length=6, logprobs=(now_T - gap).tolist())])


@over("gap", [0.0, 0.3, -0.3])
def test_how_far_the_policy_moved_is_measured_on_its_own_rollouts(gap: float) -> None:
    part, view = SingleStream(), make.view()
    harvest = Harvest(step=0, groups=(_last_batch(gap),), aborted=())
    part.observe(harvest, view=view)
    part.select(1, view=make.view())
    assert part.moved == pytest.approx(abs(gap), abs=1e-4)
    part.select(1, view=make.view())
    assert part.moved == pytest.approx(abs(gap), abs=1e-4)  # measured once
    # By what the newest policy sampled: how far older ones are away was measured before.
    old, part = _last_batch(gap + 0.5), SingleStream(probes=1)
    (newest,) = _last_batch(gap).rollouts
    newest = replace(newest, versions_T=np.ones(6, np.int32))
    part.observe(Harvest(step=0, groups=(old, make.group_of([newest])), aborted=()), view=view)
    part.select(1, view=make.view())
    assert part.moved == pytest.approx(abs(gap), abs=1e-4)


def test_by_lag_nothing_is_scored() -> None:
    part = SingleStream(forget="lag")
    part.observe(Harvest(step=0, groups=(_last_batch(0.3),), aborted=()), view=make.view())
    assert part.kept == []
    part.select(1, view=make.view())
    assert part.moved == 0


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"shortest=0\.97 exceeds single_stream\.longest=0\.96"):
        SingleStream(shortest=0.97)
    # What was sampled at another temperature says nothing of a move.
    heat: dict[str, Any] = {"controls": {"heat": {"name": "temperature_schedule"}}}
    heat["correction"] = "truncated"
    for forget in ("gap", "lag"):
        single = {"tracked": {"name": "single_stream", "forget": forget}}
        plan = strategies.load("grpo", filters=single, **heat)
        if forget == "lag":
            plan.check()
            continue
        with pytest.raises(ConfigError, match=r"controls\.heat samples .*: give forget='lag'"):
            plan.check()
