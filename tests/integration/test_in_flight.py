"""Groups that outlive batches and the process, on vLLM, with a policy for each version."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.control.oversample import Oversample
from gfcr.ledger import IN_FLIGHT, TRAINED
from gfcr.pipeline import Pipeline
from gfcr.types import RolloutBatch
from tests.integration import demo_floor
from tests.integration.demo_floor import Floor, positions

pytestmark = [pytest.mark.vllm, pytest.mark.whole]


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    made = demo_floor.start()
    yield made
    made.engine.close()


def pipeline(floor: Floor, *, name: str) -> Pipeline:
    plan = strategies.load(name, group_size=4)
    plan = replace(plan, controls={**plan.controls, "more": Oversample(factor=3)})
    return floor.pipeline(plan, prompts=4, num_train=64, keeps=True)


def batches(floor: Floor, run: Pipeline, *, versions: range) -> list[RolloutBatch]:
    made: list[RolloutBatch] = []
    for version in versions:
        run.sync(floor.weights(version), version=version)
        made.append(run.next_batch())
    return made


@pytest.mark.parametrize("name", ["grpo", "multi_turn", "reinforce_ada"])
def test_groups_in_flight_go_on_over_weight_syncs_and_from_a_checkpoint(
    name: str, floor: Floor
) -> None:
    killed = pipeline(floor, name=name)
    before = batches(floor, killed, versions=range(2))
    state = pickle.loads(pickle.dumps(killed.state_dict()))
    partial = positions(r for begun in state["in_flight"] for r in begun.partial)
    held = partial | positions(r for begun in state["in_flight"] for r in begun.verified)
    assert partial and killed.tokens()[IN_FLIGHT] == len(held)
    batches(floor, killed, versions=range(2, 3))  # is lost with the process
    killed.close()
    run = pipeline(floor, name=name)
    run.load_state_dict(state)
    after = batches(floor, run, versions=range(2, 5))
    tokens = run.tokens()
    run.close()
    assert tokens["remainder"] == 0
    trained = [positions(s.rollout for s in b.samples) for b in [*before, *after]]
    assert sum(map(len, trained)) == len(set[Any]().union(*trained)) == tokens[TRAINED]
    assert held & set[Any]().union(*trained[2:])
    used = [s.rollout for b in [*before, *after] for s in b.samples]
    assert any(len(set(r.versions_T[r.mask_T].tolist())) > 1 for r in used)
    assert floor.logprob_gap(used) < 1e-4
