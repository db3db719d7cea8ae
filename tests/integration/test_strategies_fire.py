"""Every strategy on vLLM: that it does what it is for, and that it trains. Seconds each.

A new strategy gets the checks that hold for all; name what shows that it works in the `CASES` of a
module in `tests/integration/fires`.
"""

import importlib
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr import strategy as strategies
from gfcr.pipeline import Pipeline
from gfcr.train.trl import Trl
from tests.integration import demo_floor, fires
from tests.integration.demo_floor import Floor, Source, fresh
from tests.integration.fires.case import Case, Done
from tests.sample import sample

pytestmark = pytest.mark.vllm

_MODULES = [
    importlib.import_module(f"{fires.__name__}.{module.name}")
    for module in pkgutil.iter_modules(fires.__path__)
    if module.name != "case"
]
CASES: dict[str, Case] = {name: case for module in _MODULES for name, case in module.CASES.items()}
NAMES = sorted(strategies.names(), key=lambda name: CASES.get(name, Case()).model)
OFTEN = (
    *("grpo", "dapo", "greso", "speed", "vip", "april", "repo", "rlve"),
    *("treerl", "arpo", "multi_turn", "ttrl", "vineppo", "seed_grpo"),
)
"""One of each kind, which every run of the tests tries."""
TRAINED = [name for name in NAMES if CASES.get(name, Case()).trains]


@pytest.fixture(scope="module")
def floors() -> Iterator[dict[str, Floor]]:
    """At most one, as a process has one engine at a time."""
    made: dict[str, Floor] = {}
    yield made
    for floor in made.values():
        floor.engine.close()


@pytest.fixture
def floor(name: str, floors: dict[str, Floor]) -> Floor:
    """That of a strategy's model; tests come in the order of models."""
    model = CASES.get(name, Case()).model
    if model not in floors:
        for other in [*floors]:
            floors.pop(other).engine.close()
        floors[model] = demo_floor.start(model)
    return floors[model]


def pipeline(name: str, floor: Floor) -> Pipeline:
    case = CASES.get(name, Case())
    strategy = strategies.load(name, **case.knobs)
    sizes = {"prompts": case.prompts, "num_train": case.num_train, "max_tokens": case.max_tokens}
    return floor.pipeline(strategy, rate=case.rate, **sizes)


@pytest.mark.parametrize("name", sample(NAMES, always=OFTEN))
def test_a_strategy_does_what_it_is_for(name: str, floor: Floor) -> None:
    run = pipeline(name, floor)
    done = Done(run=run, batches=floor.batches(run, num=2))
    run.close()
    assert run.tokens()["remainder"] == 0
    assert all(np.isfinite(s.advantage_T).all() for b in done.batches for s in b.samples)
    assert any(s.advantage_T.any() for b in done.batches for s in b.samples)
    assert floor.logprob_gap(fresh(done.batches)) < 1e-4
    CASES.get(name, Case()).check(done)


@pytest.mark.parametrize("name", sample(TRAINED, always=["repo", "treerl"]))
def test_a_family_trains_through_the_real_seam(name: str, floor: Floor, tmp_path: Path) -> None:
    run = pipeline(name, floor)
    source = Source(pipeline=run)
    trained = Trl(max_steps=2, micro_batches=2).train(floor.job(source, folder=tmp_path))
    run.close()
    assert trained.updates == run.engine.version == 2 and run.tokens()["remainder"] == 0
    for metrics, batch in zip(source.metrics, source.batches, strict=True):
        taught = any(s.advantage_T.any() for s in batch.samples)
        assert math.isfinite(metrics["loss"]) and (metrics["grad_norm"] > 0) == taught
    first, second = source.metrics
    assert first["logprob_gap"] < 1e-5 and first["off_policy_ratio"] == pytest.approx(1, abs=1e-4)
    stale = source.batches[1].metrics["off_policy/share"]
    assert (stale == 0) == CASES[name].on_policy
    # How far what is replayed is off depends on how far the first update went.
    assert second["logprob_gap"] < 1e-5 or not CASES[name].on_policy
    assert second["off_policy_ratio"] == pytest.approx(1, abs=0.3)
    after = AutoModelForCausalLM.from_pretrained(trained.model, dtype=torch.float32)
    pairs = zip(floor.policy.parameters(), after.parameters(), strict=True)
    assert all(not torch.equal(a, b) for a, b in pairs)
