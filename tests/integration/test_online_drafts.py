"""Drafts that learn in a run, on real engines with learners in processes of their own. About 60 s.

The policy is the demo's draft model, so that everything is small; it is made once (15 s).
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr import models
from gfcr.bench.draft_arms import untrained
from gfcr.bench.draft_learning import Size, measure
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.pipeline import Pipeline
from gfcr.speculation.online import Online
from gfcr.strategy import load
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.types import Sampling

pytestmark = pytest.mark.vllm

POLICY = "demo-draft"
SMALL = Size(
    rounds=6,
    last=1,
    requests=64,
    max_tokens=60,
    policy_steps=60,
    trained_steps=60,
    corpus=3,
)


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measure(model=POLICY, draft=POLICY, generic="demo-draft-generic", size=SMALL)


def test_a_learning_draft_recovers_from_a_shift_and_a_static_one_does_not(
    measured: dict[str, Any],
) -> None:
    share = measured["shift"]["share_of_trained"]
    assert share["static"] < 0.9
    assert share["online"] > (1 + share["static"]) / 2


def test_a_draft_that_knew_nothing_becomes_useful(measured: dict[str, Any]) -> None:
    arms = measured["arms"]
    assert arms["home/untrained"]["acceptance_length"] < 1.3
    assert arms["home/untrained online"]["acceptance_length"] > 1.5
    assert arms["home/untrained online"]["metrics"]["swaps"] >= 2


def test_a_poisoned_draft_is_rolled_back(measured: dict[str, Any]) -> None:
    poison = measured["poison"]
    assert poison["rolled_back"] == 1
    assert poison["after"] > 1.3 * min(poison["curve"]) > 1.3


def test_a_killed_learner_leaves_rollouts_running_and_is_started_again(
    measured: dict[str, Any],
) -> None:
    killed = measured["killed"]
    assert killed["deaths"] == 1 and killed["restarted"] and killed["learnt_since"] >= 1
    assert all(tokens > SMALL.requests for tokens in killed["tokens"])


@pytest.fixture
def engines() -> Iterator[list[VllmEngine]]:
    opened: list[VllmEngine] = []
    yield opened
    for engine in opened:
        engine.close()


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


def test_a_run_learns_swaps_without_touching_the_policy_and_resumes(
    tmp_path: Path, engines: list[VllmEngine]
) -> None:
    cold = str(untrained(models.resolve(POLICY), folder=tmp_path / "cold", seed=0))
    part = Online(model=cold, window=100, steps=40, lr=3e-3)
    pipeline, engine = run(part, engines)
    probe = [p.tokens for p in ChainSum().problems(pipeline.codec).heldout[:4]]
    scores = engine.score(probe, sampling=Sampling())
    for _ in range(6):
        pipeline.next_batch()
        assert part.learner is not None and part.learner.wait(60)
    learnt = part.metrics()
    assert learnt["swaps"] >= 2 and learnt["rounds"] >= 5 and learnt["learner_deaths"] == 0
    after = engine.score(probe, sampling=Sampling())
    assert all(np.array_equal(a, b) for a, b in zip(scores, after, strict=True))
    pid, state = part.learner.pid, pipeline.state_dict()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    again = Online(model=cold, window=100, steps=40, lr=3e-3)
    resumed, _ = run(again, engines)
    resumed.load_state_dict(state)
    batch = resumed.next_batch()
    assert batch.metrics["speculation/acceptance_length"] > 0.9 * learnt["acceptance_length"]
    assert learnt["acceptance_length"] > 1.3
    assert again.learner is not None and again.learner.wait(60)
    assert again.state_dict()["counts"].rounds == learnt["rounds"] + 1
    again.stop()
