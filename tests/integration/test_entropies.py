"""Corrections that ask for entropies, on the real trainer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr import strategy as strategies
from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.train.base import TrainJob
from gfcr.train.trl import Trl
from gfcr.types import Loss, Sampling
from tests.integration import demo_floor
from tests.integration.demo_floor import Source
from tests.integration.trl_script import Scripted, groups, plain_sgd, samples_of, tiny_policy


@dataclass(kw_only=True)
class Asks(Correction):
    """Changes nothing and keeps what it was shown."""

    needs_entropies = True
    seen: list[Learned] = field(init=False, default_factory=list)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        self.seen.extend(update)
        return [Corrected() for _ in update]


@pytest.mark.parametrize(
    ("estimator", "temperature"), [("grpo", 1.0), ("grpo", 0.7), ("rloo", 1.0)]
)
def test_entropies_are_those_of_the_whole_vocabulary(estimator, temperature, tmp_path):
    model = tiny_policy(tmp_path / "model")
    correction, source = Asks(), Scripted(make=lambda n: samples_of(groups(n)))
    job = TrainJob(
        model=model,
        source=source,
        loss=Loss(estimator=estimator, aggregation="grpo" if estimator == "rloo" else "dapo"),
        correction=correction,
        seed=0,
        folder=tmp_path / "run",
        sampling=Sampling(temperature=temperature),
    )
    plain_sgd(max_steps=1).train(job)
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    assert len(correction.seen) == 16
    for learned in correction.seen:
        prompt, tokens = learned.rollout.prompt.tokens, learned.rollout.tokens_T.tolist()
        with torch.no_grad():
            logits = policy(torch.tensor([[*prompt, *tokens]])).logits[0]
        law = (logits[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
        own = -(law.exp() * law).sum(-1).numpy()
        np.testing.assert_allclose(learned.entropies_T, own, atol=1e-4)
        chosen = law.gather(1, torch.tensor(tokens)[:, None])[:, 0].numpy()
        np.testing.assert_allclose(learned.logprobs_T, chosen, atol=1e-4)


@pytest.mark.whole
@pytest.mark.vllm
@pytest.mark.parametrize("name", [pytest.param("rl_zvp", marks=pytest.mark.whole), "d3s"])
def test_a_strategy_by_entropy_fires_accounts_and_trains(name: str, tmp_path: Path) -> None:
    floor = demo_floor.start()
    plan = strategies.load(name, **({"updates": 1} if name == "d3s" else {}))
    run = floor.pipeline(plan, prompts=4, num_train=64)
    source = Source(pipeline=run)
    trained = Trl(max_steps=2, micro_batches=2).train(floor.job(source, folder=tmp_path))
    run.close()
    floor.engine.close()
    assert trained.updates == 2 and run.tokens()["remainder"] == 0
    assert all(math.isfinite(m["loss"]) and m["grad_norm"] > 0 for m in source.metrics)
    assert plan.correction is not None
    told = plan.correction.metrics()
    if name == "rl_zvp":
        dead = [g for g in source.batches[-1].groups if np.ptp(g.raw_rewards_N) == 0]
        assert told["shaped"] == pytest.approx(len(dead) / 4) and told["entropy"] > 0
        assert run.tokens().get("masked", 0) == 0
    else:
        assert told["kept"] == pytest.approx(0.2, abs=0.01)  # loose by the second update
        masked, learned = run.tokens()["masked"], run.tokens()["trained"]
        assert 0.1 < learned / (masked + learned) < 0.21
