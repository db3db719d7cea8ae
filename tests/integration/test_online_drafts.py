"""Drafts that learn in a run, on real engines with learners in processes of their own. About 60 s.

The policy is the demo's draft model, so that everything is small; it is made once (15 s).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.aurora import report
from benchmarks.aurora.drafts import Switch, untrained
from benchmarks.aurora.measure import measure
from benchmarks.aurora.scene import Plan
from benchmarks.aurora.stream import Stream
from gfcr import models
from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.engine.vllm_server import VllmServer
from gfcr.pipeline import Pipeline
from gfcr.speculation.learner import Learner
from gfcr.speculation.online import Online
from gfcr.strategy import load
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.types import Sampling
from tests.integration.tiny_model import entropy_z, tiny_qwen3

pytestmark = pytest.mark.vllm

POLICY = "demo-draft"
SMALL = Plan(
    model=POLICY,
    draft=POLICY,
    before=64,
    after=384,
    cadences=(64,),
    seeds=2,
    max_tokens=60,
    policy_steps=60,
    trained_steps=60,
    corpus=192,
)
SERVERS = {"vllm": {"kv_cache_gib": 0.25}, "vllm_server": {"kv_cache_gib": 0.25}}


@pytest.fixture(scope="module", params=sorted(SERVERS))
def measured(request: pytest.FixtureRequest) -> dict[str, Any]:
    engine = {"name": request.param, **SERVERS[request.param]}
    return report.data(measure(replace(SMALL, engine=engine), say=print))


def of(measured: dict[str, Any], name: str) -> dict[str, Any]:
    return next(arm for arm in measured["arms"] if arm["arm"] == name)


@pytest.mark.whole
def test_a_learning_draft_recovers_from_a_shift_and_a_static_one_does_not(
    measured: dict[str, Any],
) -> None:
    static, online = (of(measured, name)["share"]["value"] for name in ("static", "online 64"))
    assert static < 0.9
    assert online > (1 + static) / 2


@pytest.mark.whole
def test_a_draft_that_knew_nothing_becomes_useful(measured: dict[str, Any]) -> None:
    cold = of(measured, "cold")
    assert cold["just_after"]["value"] < 1.3 < 1.5 < cold["last"]["value"]
    assert cold["swaps"] >= 2


@pytest.mark.whole
def test_under_traffic_bad_drafts_go_and_learners_come_back(measured: dict[str, Any]) -> None:
    assert [each["what"] for each in measured["struck"]] == ["poison", "kill"] * 2
    assert all(each["over"] for each in measured["struck"]) and measured["failed"] == 0
    for poison in measured["struck"][::2]:
        assert poison["after"] > 1.2 * poison["lowest"] > 1.2


@pytest.mark.whole
def test_a_server_that_is_killed_drafts_with_what_was_learnt_when_it_is_there_again(
    tmp_path: Path,
) -> None:
    policy = models.resolve(POLICY)
    switch = Switch(untrained(policy, folder=tmp_path / "cold", seed=0), draft_length=3)
    config = VllmServer(kv_cache_gib=0.25)
    with closing(config.start(model=str(policy), seed=0, drafter=switch)) as engine:
        stream = Stream(engine=engine, sampling=Sampling(max_tokens=60), running=16, block=32)
        blocks = stream.blocks(cycle(ChainSum().problems(HfCodec(policy)).train), seed=0)
        assert next(blocks).acceptance_length < 1.5
        switch.begin(policy)  # whose drafts it accepts, then
        next(blocks)
        assert next(blocks).acceptance_length > 3
        process = engine.fleet.servers[0].process
        assert process is not None and process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        next(blocks)
        assert next(blocks).acceptance_length > 3 and stream.failed == 0


@pytest.fixture
def engines() -> Iterator[list[VllmEngine]]:
    opened: list[VllmEngine] = []
    yield opened
    for engine in opened:
        engine.close()


def learnt(learner: Learner) -> bool:
    """Whether what it was taught is learnt, soon."""
    until = time.monotonic() + 300
    while learner.alive and time.monotonic() < until:
        if all((learner.folder / f"learnt-{n}.json").exists() for n in learner._told[-1:]):
            return True
        time.sleep(0.01)
    return False


def run(part: Online, engines: list[VllmEngine]) -> tuple[Pipeline, VllmEngine]:
    folder = models.resolve(POLICY)
    part.fetch(models.resolve)
    while engines:
        engines.pop().close()
    engine = Vllm(kv_cache_gib=0.25).start(model=str(folder), seed=0, drafter=part)
    engines.append(engine)
    codec, task = HfCodec(folder), ChainSum()
    pipeline = Pipeline(
        replace(load("grpo", group_size=4), drafter=part),
        engine=engine,
        task=task,
        train=task.problems(codec).train,
        codec=codec,
        prompts=16,
        sampling=Sampling(max_tokens=60),
        seed=0,
    )
    return pipeline, engine


@pytest.mark.whole
def test_a_run_learns_swaps_without_touching_the_policy_and_resumes(
    tmp_path: Path, engines: list[VllmEngine]
) -> None:
    cold = str(untrained(models.resolve(POLICY), folder=tmp_path / "cold", seed=0))
    part = Online(model=cold, window=100, steps=40, lr=3e-3)
    pipeline, engine = run(part, engines)
    probe = [p.tokens for p in ChainSum().problems(pipeline.codec).heldout[:4]]
    scores = [s.logprobs_T for s in engine.score(probe, sampling=Sampling())]
    for _ in range(6):
        pipeline.next_batch()
        assert part.learner is not None and learnt(part.learner)
    told = part.metrics()
    assert told["swaps"] >= 2 and told["rounds"] >= 5 and told["learner_deaths"] == 0
    after = [s.logprobs_T for s in engine.score(probe, sampling=Sampling())]
    assert all(np.array_equal(a, b) for a, b in zip(scores, after, strict=True))
    pid, state = part.learner.pid, pipeline.state_dict()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    again = Online(model=cold, window=100, steps=40, lr=3e-3)
    resumed, _ = run(again, engines)
    resumed.load_state_dict(state)
    batch = resumed.next_batch()
    assert batch.metrics["speculation/acceptance_length"] > 0.9 * told["acceptance_length"]
    assert told["acceptance_length"] > 1.3
    assert again.learner is not None and learnt(again.learner)
    before = state["parts"]["drafter"]["counts"].rounds
    assert again.state_dict()["counts"].rounds == before + 1
    again.stop()


def test_swaps_at_any_step_leave_the_distribution_as_it_is(
    tmp_path: Path, engines: list[VllmEngine]
) -> None:
    policy = tiny_qwen3(tmp_path / "policy", seed=0, eos=None)
    drafts = [tmp_path / name for name in ("draft", "other")]
    for seed, folder in enumerate(drafts, start=1):
        tiny_qwen3(folder, seed=seed, hidden=32, layers=1, eos=None)
    switch = Switch(drafts[0], draft_length=3)
    engine = Vllm(kv_cache_gib=0.25).start(model=str(tmp_path / "policy"), seed=0, drafter=switch)
    engines.append(engine)
    prompt, made = (4, 9, 5, 16), dict[str, list[int]]()
    for i in range(1000):
        name, sampling = f"r{i}", Sampling(max_tokens=12)
        engine.submit(Request(id=name, tokens=prompt, sampling=sampling, seed=i))
        made[name] = list(prompt)
    steps, open_ones = 0, len(made)
    while open_ones:
        switch.begin(drafts[steps % 2])
        steps += 1
        for delta in engine.step():
            made[delta.request_id] += delta.tokens
            open_ones -= delta.finish is not None
    stats = engine.stats()
    assert 0 < stats.accepted_tokens < stats.drafted_tokens
    assert abs(entropy_z(policy, list(made.values()), prompt=len(prompt))) < 4


LEAVES = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from gfcr.speculation.learner import Course, Learner
from gfcr.speculation.lessons import Example
course = Course(model=sys.argv[1], steps=1, lr=1e-3, pool=100, rejected=1.0, threads=1)
learner = Learner(course)
tokens = np.arange(6, dtype=np.int32)
learner.teach([Example(tokens_T=tokens, prompt_length=2, temperature=1.0, law=None)])
while learner.alive and not [*learner.folder.glob("learnt-*.json")]:
    time.sleep(0.1)
print(learner.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.whole
def test_a_learner_ends_with_its_run_even_if_that_is_killed(tmp_path: Path) -> None:
    tiny_qwen3(tmp_path, hidden=32, layers=1)
    command = [sys.executable, "-c", LEAVES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    until = time.monotonic() + 60
    while runs(int(done.stdout)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not runs(int(done.stdout))


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
