"""Strategies in a stock GRPOTrainer script, on one vLLM engine and a tiny model. About 20 s."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from gfcr import drop_in
from gfcr.errors import ConfigError
from gfcr.tasks.chain_sum import ALPHABET, ChainSum
from gfcr.tasks.codec import CharCodec
from gfcr.types import Sampling
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_stock import arguments, train_stock

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).parents[2]

PROMPTS = [p.text for p in ChainSum(num_train=4).problems(CharCodec(alphabet=ALPHABET)).train]
ENGINE = {"kv_cache_gib": 0.25}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


class Recorded:
    """A drop-in whose answers are kept."""

    def __init__(self, inner: drop_in.DropIn) -> None:
        self.inner, self.outputs = inner, list[dict[str, Any]]()
        self.gaps: list[float] = []

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        out = self.inner(prompts, trainer)
        self.outputs.append(out)
        self.gaps.append(self._gap(out))
        return out

    def _gap(self, out: dict[str, Any]) -> float:
        """Largest difference between the log-probs given to TRL and those of the policy synced."""
        pairs = zip(out["prompt_ids"], out["completion_ids"], strict=True)
        scores = [
            s.logprobs_T
            for s in self.inner.engine.score([p + c for p, c in pairs], sampling=Sampling())
        ]
        worst = 0.0
        for i, score in enumerate(scores):
            mask = np.array(out["env_mask"][i], bool)
            gap_T = score[len(out["prompt_ids"][i]) - 1 :] - np.array(out["logprobs"][i])
            worst = float(np.maximum(worst, np.abs(gap_T[mask]).max()))  # keeps NaN
        return worst


@pytest.fixture
def train(model: str, tmp_path: Path) -> Iterator[Any]:
    """Trains two updates of a stock script with a drop-in; returns what the drop-in answered."""
    opened: list[drop_in.DropIn] = []

    def train(
        strategy: str, *, reward: Any, prompts: list[str] = PROMPTS, **options: Any
    ) -> Recorded:
        opened.append(drop_in.rollout_func(strategy, model=model, engine=ENGINE, **options))
        recorded = Recorded(opened[-1])
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=GRPOConfig(**arguments(tmp_path, rollouts=16, size=4, max_completion_length=40)),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            rollout_func=recorded,
        )
        assert train_stock(trainer).norm() > 0
        return recorded

    yield train
    for each in opened:
        each.close()


def length(completions: list[str], **_: Any) -> list[float]:
    return [float(len(c)) for c in completions]


def test_a_stock_script_trains_on_rollouts_that_the_strategy_halts(train: Any) -> None:
    knobs = {"max_period": 2, "min_repeats": 2, "min_tokens": 2}
    made = train("repetition_stop", reward=length, **knobs)
    first, second = made.outputs
    assert len(first["completion_ids"]) == len(second["completion_ids"]) == 16
    assert max(made.gaps) < 1e-4 and made.inner.engine.version == 1
    lengths = [len(c) for out in made.outputs for c in out["completion_ids"]]
    ends = [c[-1] for out in made.outputs for c in out["completion_ids"]]
    halted = [n for n, end in zip(lengths, ends, strict=True) if n < 40 and end != 1]
    assert halted  # neither the cap nor the end of sequence ended these
    assert len({tuple(c) for c in first["completion_ids"]}) > 8  # rollouts of a prompt differ


def test_a_tool_s_words_are_masked_and_the_verifier_rewards(train: Any) -> None:
    seen: list[float] = []

    def reward(rollout_reward: list[float], completions: list[str], **_: Any) -> list[float]:
        seen.extend(rollout_reward)  # nearly all 0: the model is random
        return [len(c) + r for c, r in zip(completions, rollout_reward, strict=True)]

    made = train("multi_turn", reward=reward, task="chain_sum")
    masks = [m for out in made.outputs for m in out["env_mask"]]
    assert any(0 in m for m in masks) and all(1 in m for m in masks)
    assert max(made.gaps) < 1e-4
    assert len(seen) == 32 and set(seen) <= {0.0, 1.0}


def test_a_prompt_the_task_does_not_know_is_named(train: Any) -> None:
    with pytest.raises(ConfigError, match=r"'1\+1\+1\+1=' is none of the task's problems"):
        train("grpo", reward=drop_in.reward, task="chain_sum", prompts=["1+1+1+1="] * 4)


@pytest.mark.whole
def test_the_script_in_the_docs_runs(model: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trl.md").read_text()
    (script,) = re.findall(
        r"^```python\n((?:(?!```).)*?import rollout_func  # 1.*?)^```", page, re.M | re.S
    )
    (tmp_path / "script.py").write_text(re.sub(r'MODEL = ".*"', f"MODEL = {model!r}", script))
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'train_runtime'" in done.stdout
