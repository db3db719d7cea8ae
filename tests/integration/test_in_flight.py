"""Groups that outlive batches and the process, on vLLM, with a policy for each version."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from gfcr import strategy as strategies
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
    return floor.pipeline(strategies.load(name, group_size=4), prompts=4, num_train=64)


def batches(floor: Floor, run: Pipeline, *, versions: range) -> list[RolloutBatch]:
    """Two batches are in the making at a time, and policies reach them in flight."""
    made: list[RolloutBatch] = []
    for version in versions:
        run.sync(floor.weights(version), version=version)
        for step in (version, version + 1):
            if step not in run.making.opened:
                run.making.open(step, update=step)
        for _ in range(5):  # else the second one is complete with the first
            run.making.turn()
        while not run.making.opened[version].done:
            run.making.turn()
        made.append(run.close_batch(version))
    return made


@pytest.mark.parametrize("name", ["grpo", "multi_turn", "reinforce_ada"])
def test_groups_in_flight_go_on_over_weight_syncs_and_from_a_checkpoint(
    name: str, floor: Floor
) -> None:
    killed = pipeline(floor, name=name)
    before = batches(floor, killed, versions=range(1))
    killed.sync(floor.weights(1), version=1)
    killed.making.open(2, update=2)
    for _ in range(5):
        killed.making.turn()
    state = pickle.loads(pickle.dumps(killed.state_dict()))
    making = state["making"]
    partial = positions(r for begun in making["in_flight"] for r in begun.partial)
    held = partial | positions(r for begun in making["in_flight"] for r in begun.verified)
    held |= positions(r for o in making["opened"] for g in o.groups for r in g.rollouts)
    assert partial and killed.tokens()[IN_FLIGHT] == len(held)
    batches(floor, killed, versions=range(1, 2))  # is lost with the process
    killed.close()
    run = pipeline(floor, name=name)
    run.load_state_dict(state)
    after = batches(floor, run, versions=range(1, 4))
    run.making.drop(4)
    run.making.open(5, update=5)
    while not run.making.opened[5].done:
        run.making.turn()
    after.append(run.close_batch(5))
    tokens = run.tokens()
    run.close()
    assert tokens["remainder"] == 0 and IN_FLIGHT not in tokens
    trained = [positions(s.rollout for s in b.samples) for b in [*before, *after]]
    assert sum(map(len, trained)) == len(set[Any]().union(*trained)) == tokens[TRAINED]
    assert held & set[Any]().union(*trained[1:])
    used = [s.rollout for b in [*before, *after] for s in b.samples]
    assert any(len(set(r.versions_T[r.mask_T].tolist())) > 1 for r in used)
    assert floor.logprob_gap(used) < 1e-4
