"""Strategies from outside the package, on vLLM and through TRL: each fires, accounts and trains."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, final

import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.handles import Verdict
from gfcr.testing import factories as make
from gfcr.tracking.rollouts import read_rollouts, write_rollouts
from gfcr.train.trl import Trl
from gfcr.types import Prompt
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


def levels(source: Source) -> list[set[int]]:
    return [{len(g.prompt.text) - 1 for g in b.groups} for b in source.batches]


def anchored(source: Source) -> list[float]:
    """What turns' advantages have beside their episodes'."""
    signals = [s for g in groups(source) for s in g.signals]
    base = [EpisodeAdvantage(epsilon=1e-6).apply(g, view=make.view()) for g in groups(source)]
    pairs = zip(signals, (s for g in base for s in g.signals), strict=True)
    return [own.advantage - of.advantage for own, of in pairs]


@final
class _Paying(World):
    """Pays for its first turn, or not, as the episode before it did not."""

    made = count()

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self.pay = float(next(self.made) % 2)
        return Observation(state="first")

    def act(self, action: str) -> Observation:
        paid, self.pay = self.pay, 0.0
        return Observation(text=",", reward=paid, state="later")

    def verdict(self, last: str) -> Verdict | None:
        return None


@final
@dataclass(frozen=True, kw_only=True)
class Paying(Environment):
    """Episodes whose worth is decided beforehand."""

    def make(self) -> World:
        return _Paying()


FIRED: dict[str, Check] = {
    "allotted": lambda run, seen: (
        seen.batches[-1].metrics["controls.shortest/put_back"] == 6
        and {len(g.rollouts) for g in groups(seen)} == {4, 6}
        and part(run, "controls.capped").capped > 0
    ),
    "cispo": lambda run, seen: all(abs(m["loss"]) <= 3e-3 for m in seen.metrics),  # cap x |A|
    "dhpo": lambda run, seen: part(run, "correction").clipped > 0,
    "evolving": lambda run, seen: (
        part(run, "controls.evolve").asked
        == sum(g.prompt.id.startswith("made:") for g in groups(seen))
        > 0
    ),
    "experience": lambda run, seen: part(run, "replays.experience").recalled > 0,
    "fgrpo": lambda run, seen: len({g.values["focal"] for g in groups(seen)}) > 1,
    "gaussian": lambda run, seen: (
        {*part(run, "controls.frontier").rates} == {g.prompt.id for g in groups(seen)}
        and all(len({g.prompt.id for g in b.groups}) == 3 for b in seen.batches)
    ),
    "heap": lambda run, seen: max(anchored(seen)) > 0.1,
    "gspo": lambda run, seen: part(run, "correction").clipped > 0,
    "fifo_replay": lambda run, seen: (
        [b.metrics["rollouts/replayed"] for b in seen.batches] == [0, 8, 8]
    ),
    "hinted": lambda run, seen: (
        part(run, "controls.reroll").rerolled > 0
        and any(s.rollout.sampled_under for b in seen.batches for s in b.samples)
    ),
    "hora": lambda run, seen: (
        len({len(g.rollouts) for g in groups(seen)}) > 1
        and all(sum(len(g.rollouts) for g in b.groups) == 24 for b in seen.batches)
    ),
    "ladder": lambda run, seen: levels(seen) == [{2}, {3}, {4}],
    "rsi": lambda run, seen: 0 < part(run, "correction").masked < 1,
    "sgpo": lambda run, seen: (
        sum(g.rejected == "profiled" for g in groups(seen)) == 12
        and {len(g.rollouts) for g in groups(seen) if not g.rejected} >= {2, 4}
    ),
    "two_replays": lambda run, seen: (
        seen.batches[-1].metrics["replays.best/recalled"] > 0
        and seen.batches[-1].metrics["replays.newest/recalled"] > 0
    ),
}
FEW = {
    **{"two_replays": 3, "experience": 3, "hora": 3},
    **{"evolving": 12, "allotted": 12, "sgpo": 12, "gaussian": 12},
}
"""Prompts of the task, where they have to come back."""
KNOBS: dict[str, dict[str, Any]] = {
    "heap": {"generate": {"environment": {"name": f"{__name__}:Paying"}}},
    "gspo": {"low": 0.0, "high": 0.0},
    "dhpo": {"token": 0.0, "sequence": 0.0},
    "cispo": {"cap": 1e-3},
}
"""What makes it certain that it fires."""
OWN: dict[str, dict[str, Any]] = {
    "hinted": {"rate": lambda prompt: 0.5 * (prompt.text[0] > "4")},
    "ladder": {"task": f"{FOLDER}/ladder.py:Backwards", "rate": lambda prompt: 0.75},
}
"""Tasks of their own, and the share of each prompt's answers that is right."""


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
    knobs = {"folder": str(recorded)} if name == "experience" else KNOBS.get(name, {})
    plan = strategies.load(f"{FOLDER / name}.py:{name}", **knobs)
    plan.check()
    prompts = 6 if name == "allotted" else 3
    own = dict(OWN.get(name, {}))
    own |= {"task": registry.build("task", {"name": own["task"]})} if "task" in own else {}
    few = FEW.get(name, 64)
    run = floor.pipeline(plan, prompts=prompts, num_train=few, records=read_rollouts, **own)
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
