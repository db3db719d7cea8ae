"""Strategies from outside the package, on vLLM and through TRL: each fires, accounts and trains."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr import strategy as strategies
from gfcr.tracking.rollouts import read_rollouts, write_rollouts
from gfcr.train.trl import Trl
from tests.integration import demo_floor
from tests.integration.demo_floor import Floor, Source
from tests.sample import sample

pytestmark = pytest.mark.vllm

FOLDER = Path(__file__).parents[1] / "foreign"
Check = Callable[[Any, Source], bool]


def part(run: Any, address: str) -> Any:
    return run.strategy.parts[address]


def groups(source: Source) -> list[Any]:
    return [g for b in source.batches for g in b.groups]


FIRED: dict[str, Check] = {
    "allotted": lambda run, seen: (
        seen.batches[-1].metrics["controls.shortest/put_back"] == 6
        and {len(g.rollouts) for g in groups(seen)} == {4, 6}
        and part(run, "controls.capped").capped > 0
    ),
    "evolving": lambda run, seen: (
        part(run, "controls.evolve").asked
        == sum(g.prompt.id.startswith("made:") for g in groups(seen))
        > 0
    ),
    "experience": lambda run, seen: part(run, "replays.experience").recalled > 0,
    "hinted": lambda run, seen: (
        part(run, "controls.reroll").rerolled > 0
        and any(s.rollout.sampled_under for b in seen.batches for s in b.samples)
    ),
    "two_replays": lambda run, seen: (
        seen.batches[-1].metrics["replays.best/recalled"] > 0
        and seen.batches[-1].metrics["replays.newest/recalled"] > 0
    ),
}
FEW = {"two_replays": 3, "experience": 3, "evolving": 12, "allotted": 12}
"""Prompts of the task, where they have to come back."""


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    made = demo_floor.start()
    yield made
    made.engine.close()


@pytest.fixture
def recorded(floor: Floor, tmp_path: Path) -> Path:
    """What another run recorded on the same prompts."""
    plan = strategies.load("grpo", group_size=8)
    folder = tmp_path / "earlier"
    earlier = floor.pipeline(
        plan, prompts=3, num_train=3, sink=lambda b: write_rollouts(folder, batch=b)
    )
    floor.batches(earlier, num=2)
    earlier.close()
    return folder


def test_every_one_has_a_check() -> None:
    assert set(FIRED) == {f.stem for f in FOLDER.glob("*.py")}


@pytest.mark.parametrize("name", sample(FIRED, always=["two_replays"]))
def test_it_fires_accounts_and_trains(
    name: str, floor: Floor, recorded: Path, tmp_path: Path
) -> None:
    knobs: dict[str, Any] = {"folder": str(recorded)} if name == "experience" else {}
    plan = strategies.load(f"{FOLDER / name}.py:{name}", **knobs)
    plan.check()
    prompts = 6 if name == "allotted" else 3
    run = floor.pipeline(plan, prompts=prompts, num_train=FEW.get(name, 64), records=read_rollouts)
    source = Source(pipeline=run)
    job = floor.job(source, folder=tmp_path / "checkpoints")
    trained = Trl(max_steps=3, micro_batches=2).train(job)
    run.close()
    assert trained.updates == 3 and run.tokens()["remainder"] == 0
    assert all(math.isfinite(m["loss"]) for m in source.metrics if "loss" in m)
    assert FIRED[name](run, source)
    after = AutoModelForCausalLM.from_pretrained(trained.model, dtype=torch.float32)
    before = floor.policy.parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, after.parameters(), strict=True))
