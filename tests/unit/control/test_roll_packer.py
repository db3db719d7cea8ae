"""Tail batching: every prompt drawn is trained on once, or waits; long rounds cut nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.roll_packer import RollPacker
from gfcr.errors import ConfigError
from gfcr.ledger import ABORTED
from gfcr.loop.stream import PromptStream
from gfcr.pipeline import Pipeline
from gfcr.stages import Plan
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch


def part_of(pipeline: Pipeline) -> RollPacker:
    part = pipeline.strategy.controls["roll_packer"]
    assert isinstance(part, RollPacker)
    return part


@settings(max_examples=12, deadline=None)
@given(
    num_train=st.integers(3, 30),
    prompts=st.integers(1, 5),
    factor=st.floats(1.0, 3.0),
    updates=st.integers(1, 12),
    seed=st.integers(0, 5),
)
def test_every_prompt_drawn_is_trained_on_once_or_queued(
    num_train: int, prompts: int, factor: float, updates: int, seed: int
) -> None:
    plan = strategies.load("rollpacker", factor=factor, group_size=2)
    task = make.CoinTask(num_train=num_train)
    pipeline = make.pipeline(plan, task=task, prompts=prompts, seed=seed)
    trained: Counter[str] = Counter()
    for _ in range(updates):
        batch = pipeline.next_batch()
        assert len(batch.groups) == prompts
        trained.update(g.prompt.id for g in batch.groups)
    stream = pipeline.stream
    assert isinstance(stream, PromptStream)
    again = PromptStream(task.problems(make.CODEC).train, seed=seed)
    drawn = Counter(p.id for p in again.draw(stream.drawn))
    assert trained + Counter(p.id for p in part_of(pipeline).queue) == drawn
    # Of a whole epoch nothing is left out, of one that is not over nothing comes twice.
    assert max(drawn.values()) - min(drawn[f"c{i}"] for i in range(num_train)) <= 1


def uneven(generate: str = "sample", **knobs: Any) -> tuple[Pipeline, list[RolloutBatch]]:
    """Prompts with an odd number write forty tokens, the others two."""

    def script(request: Any) -> Sequence[int]:
        number = int(make.CODEC.decode(request.tokens).partition("=")[0])
        return [*make.CODEC.encode("7" * (40 if number % 2 else 2)), make.CODEC.eos_id]

    part = {"name": generate, **knobs}
    plan = strategies.load("rollpacker", factor=2.0, group_size=2, generate=part)
    pipeline = make.pipeline(plan, script=script, prompts=4, max_tokens=60)
    return pipeline, [pipeline.next_batch() for _ in range(6)]


def test_long_prompts_are_deferred_and_come_together_whole_and_on_policy() -> None:
    pipeline, batches = uneven()
    assert batches[0].metrics["controls.roll_packer/deferred"] == 4.0
    longs = [b.metrics["controls.roll_packer/long"] for b in batches]
    assert 1.0 in longs and longs[0] == 0.0
    for batch, long in zip(batches, longs, strict=True):
        lengths = {len(r) for g in batch.groups for r in g.rollouts}
        if long:
            assert not batch.aborted and batch.metrics["controls.roll_packer/deferred"] == 0
        assert {r.step for g in batch.groups for r in g.rollouts} == {batch.step}
        assert lengths <= ({41} if long else {3, 41})
    assert pipeline.ledger.bins()[ABORTED] > 0

    # Nor is a prompt put in the queue as a part has worded it anew.
    for part in ({"name": "self_repair"}, {"name": "plan_then_act", "template": "{prompt}?"}):
        worded, others = uneven(part.pop("name"), **part)
        asked = [g.prompt.id for b in others for g in b.groups]
        assert all(i.startswith("c") for i in [*asked, *(p.id for p in part_of(worded).queue)])


def test_a_long_round_waits_for_a_full_queue_and_leaves_the_rest() -> None:
    part, view = RollPacker(factor=1.5), make.view(target=4)
    drawn = view.draw(6)
    part.queue = drawn[:3]
    short = part.plan(Plan(num_groups=4, target=4), view=view)
    assert (short.num_groups, short.jobs) == (6, ())
    part.queue = list(drawn)
    long = part.plan(Plan(num_groups=4, target=4), view=view)
    assert long.num_groups == 4 and [j.prompt for j in long.jobs] == drawn[:4]
    assert part.queue == drawn[4:] and part.metrics()["queued"] == 2.0


def test_later_rounds_and_groups_in_flight_are_counted() -> None:
    part, view = RollPacker(factor=1.5), make.view(target=4)
    assert part.plan(Plan(num_groups=1, target=4, in_flight=3), view=view).num_groups == 3
    view.round += 1
    later = Plan(num_groups=0, target=4)
    assert part.plan(later, view=view) == replace(later)


def test_a_memory_that_resumes_what_is_cut_is_refused() -> None:
    plan = strategies.load("rollpacker", replays={"partial": {"name": "partial_rollouts"}})
    with pytest.raises(ConfigError, match=r"controls\.roll_packer: replays\.partial .*Remove one"):
        plan.check()


def test_less_than_a_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"RollPacker\.factor="):
        RollPacker(factor=0.9)
