"""The survey's criteria of a batch, by hand and in runs."""

from dataclasses import replace

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.loop.criteria import criteria
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group, Rollout, Sample
from tests.cases import over
from tests.trees import leaf


def of(
    *groups: Group, samples: tuple[Sample, ...] = (), generated: float = 0, first_trained: int = 0
) -> dict[str, float]:
    harvest = Harvest(step=0, groups=groups, aborted=())
    return criteria(harvest, samples=samples, generated=generated, first_trained=first_trained)


def test_reliability_is_of_what_ended_and_of_what_was_judged() -> None:
    rollouts = [
        make.rollout(0),
        make.rollout(1, reward=None),  # nobody judged it
        make.rollout(2, reward=None, error="x"),
        make.rollout(3, reward=0.0, finish=FinishReason.LENGTH),
        make.rollout(4, origin="replay", finish=FinishReason.LENGTH),
    ]
    found = of(make.group_of(rollouts))
    assert found["reliability/whole"] == 3 / 4
    assert found["reliability/scored"] == 2 / 3


def test_coverage_is_of_groups() -> None:
    alike = [make.rollout(i, reward=0.0, text="7") for i in range(4)]
    mixed = [make.rollout(i, reward=float(i), text=str(i)) for i in range(2)]
    unknown = [make.rollout(0, reward=None, error="x", text="7")]
    found = of(*map(make.group_of, (alike, mixed, unknown)))
    assert found["coverage/distinct"] == pytest.approx((1 / 4 + 1 + 1) / 3)
    assert found["coverage/solved"] == 1 / 2


def sample(rollout: Rollout, advantage: float) -> Sample:

    return Sample(rollout=rollout, advantage_T=np.full(len(rollout), advantage, np.float32))


def test_cost_is_of_live_groups_and_of_what_was_never_trained() -> None:
    tree = [leaf(0, spans=[("a", 6)], reward=1.0), leaf(1, spans=[("b", 3)], reward=0.0)]
    dead = [replace(r, group_id="dead") for r in (leaf(0, spans=[("c", 5)], reward=1.0),)]
    samples = (*(sample(r, 0.5) for r in tree), *(sample(r, 1e-8) for r in dead))  # 0, rounded
    found = of(make.group_of(tree), samples=samples, generated=40, first_trained=14)
    assert found["cost/live_groups_per_1k"] == 1000 / 40
    assert found["cost/discarded"] == 1 - 14 / 40
    assert found["coverage/live"] == 1 / 2


@over("name", ["grpo", "treerl", "pods"])
def test_in_a_run_what_is_discarded_is_what_the_ledger_says(name: str) -> None:
    pipeline = make.pipeline(strategies.load(name), prompts=4)
    batch = pipeline.next_batch()
    tokens = pipeline.tokens()
    lost = 1 - tokens["trained"] / tokens["generated"]
    assert batch.metrics["cost/discarded"] == pytest.approx(lost)
    assert batch.metrics["reliability/scored"] == 1
