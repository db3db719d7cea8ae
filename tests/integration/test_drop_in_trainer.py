"""A GRPO script with a strategy, on vLLM and a tiny model."""

import json
import re
import runpy
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from trl import GRPOConfig

from gfcr.drop_in import GRPOTrainer
from gfcr.errors import CheckpointError, ConfigError
from gfcr.tracking.rollouts import read_rollouts, read_update
from tests.cases import over
from tests.integration.tiny_model import reference_logprobs, tiny_chain_sum
from tests.integration.trl_stock import arguments

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).parents[2]
ENGINE = {"kv_cache_gib": 0.25}
ROWS = {"prompt": ["1+2=", "3+4=", "5+6=", "7+8="], "limit": [6, 6, 6, 0]}
REPLAYED = {
    "name": "repo",
    "num": 2,
    "min_cached": 2,
    "filters": {"zero_variance": {"name": "zero_variance"}},
    "controls": {"refill": {"name": "refill"}},
}
"""Dynamic sampling and replay."""


NAMED = ("strategy", "reward_funcs", "tools", "eval_dataset", "engine")
"""What the trainer is given, and not its `GRPOConfig`."""


def short(completions: list[str], limit: list[int], **_: Any) -> list[float | None]:
    """Reads a column of the dataset; some completions have no score.

    What is right nobody can learn, and the last prompt's answers are never right.
    """
    pairs = zip(completions, limit, strict=True)
    return [None if not t else float(most > 0 and crc32(t.encode()) % 2) for t, most in pairs]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def moved(model: str) -> Any:
    """The folder's model with other weights, as an object."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        for value in loaded.parameters():
            value.mul_(1.1)
    return loaded


def make(model: Any, folder: Path, **changes: Any) -> Any:
    settings = arguments(folder, rollouts=16, size=4, max_completion_length=24, max_steps=3)
    named = {k: changes.pop(k) for k in NAMED if k in changes}
    settings |= {"logging_steps": 1, "save_strategy": "steps", "save_steps": 1, **changes}
    return GRPOTrainer(
        model,
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_dict(ROWS),
        **{"strategy": REPLAYED, "reward_funcs": short, "engine": ENGINE, **named},
    )


@pytest.fixture(scope="module")
def trained(model: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("run")
    trainer = make(moved(model), folder)
    trainer.train()
    return trainer, folder


def test_the_engine_samples_from_the_model_object_s_own_weights(
    model: str, trained: tuple[Any, Path]
) -> None:
    (_, folder), own = trained, moved(model)
    of_folder: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    (group, *_) = read_update(folder / "rollouts" / "update-000000.parquet").groups
    rollout = max(group.rollouts, key=len)
    tokens = [*rollout.prompt.tokens, *rollout.tokens_T.tolist()]
    gaps = [
        np.abs(reference_logprobs(m, tokens)[-len(rollout) :].numpy() - rollout.logprobs_T).max()
        for m in (own, of_folder)
    ]
    assert gaps[0] < 1e-3 < 1e-1 < gaps[1]


def test_groups_without_signal_are_replaced(trained: tuple[Any, Path]) -> None:
    _, folder = trained
    groups = list(read_rollouts(folder / "rollouts"))
    rejected = [g for g in groups if g.rejected is not None]
    kept = [g for g in groups if g.rejected is None]
    assert rejected and {g.rejected for g in rejected} == {"zero_variance"}
    assert len(kept) == 3 * 4
    assert len(groups) > 3 * 4  # others were drawn for those rejected


def test_rollouts_come_back(trained: tuple[Any, Path]) -> None:
    trainer, folder = trained
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == 3
    ages = [len(g.rollouts) for g in read_rollouts(folder / "rollouts") if g.rejected is None]
    assert max(ages) > 4  # four are fresh, the others replayed
    assert all(np.isfinite(entry["loss"]) and entry["grad_norm"] > 0 for entry in logs)


def test_reward_functions_see_their_columns(trained: tuple[Any, Path]) -> None:
    trainer, folder = trained
    for group in read_rollouts(folder / "rollouts"):
        for rollout in group.rollouts:
            if rollout.reward is not None:
                assert rollout.reward in (0.0, 1.0)
    logs = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert logs and all(0 <= entry["reward"] <= 1 for entry in logs)
    assert "reward/trained" in logs[0]


def test_reward_models_and_coroutines_score(model: str, tmp_path: Path) -> None:
    judge = AutoModelForSequenceClassification.from_pretrained(model, num_labels=1)

    async def later(completions: list[str], **_: Any) -> list[float]:
        return [100.0] * len(completions)

    trainer = make(
        model,
        tmp_path,
        strategy="grpo",
        engine={"name": "fake"},
        reward_funcs=[judge, later],
        save_strategy="no",
        max_steps=1,
    )
    trainer.train()
    (group, *_) = read_rollouts(tmp_path / "rollouts")
    rewards = [r.reward for r in group.rollouts]
    assert all(reward is not None and abs(reward - 100) < 50 for reward in rewards)
    assert len(set(rewards)) > 1  # the coroutine gives 100 to each, the model something of its own


def test_a_run_resumes_where_it_was(model: str, trained: tuple[Any, Path], tmp_path: Path) -> None:
    trainer, folder = trained
    again = make(model, tmp_path)
    again.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    assert again.state.global_step == 3
    whole = dict(trainer.model.named_parameters())
    for name, value in again.model.named_parameters():
        assert (value - whole[name]).abs().max() < 1e-6, name
    (only,) = (tmp_path / "rollouts").iterdir()
    assert only.name == "update-000002.parquet"


def test_a_checkpoint_of_another_trainer_is_refused(model: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").mkdir()
    with pytest.raises(CheckpointError, match="no checkpoint of this trainer"):
        make(model, tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.whole
def test_a_drafter_drafts(model: str, tmp_path: Path) -> None:
    trainer = make(model, tmp_path, strategy={"name": "grpo", "drafter": "das"}, save_strategy="no")
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert sum(entry.get("speculation/drafted", 0) for entry in logs) > 0


@pytest.mark.whole
def test_evaluation_is_trl_s_and_changes_no_update(
    model: str, trained: tuple[Any, Path], tmp_path: Path
) -> None:
    rows = Dataset.from_dict(ROWS)
    shape = {"eval_strategy": "steps", "eval_steps": 1, "eval_on_start": True}
    trainer = make(moved(model), tmp_path, save_strategy="no", eval_dataset=rows, **shape)
    trainer.train()
    found = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
    assert len(found) == 4 and all(0 <= entry["eval_reward"] <= 1 for entry in found)
    whole = dict(trained[0].model.named_parameters())
    assert all((p == whole[n]).all() for n, p in trainer.model.named_parameters())
    assert 0 <= trainer.evaluate()["eval_reward"] <= 1


@over(
    ("changes", "words"),
    [
        ({"use_vllm": True, "vllm_mode": "server"}, "vllm_mode='server'"),
        ({"num_iterations": 2}, "max_steps=3: rollouts last for 2 optimizer steps"),
        ({"strategy": {"name": "grpo", "group_size": 8}}, "give one of them"),
        ({"strategy": "rloo"}, "loss is rloo"),
        ({"strategy": "dappo"}, "dapo"),
        ({"tools": [short]}, "tools"),
    ],
)
def test_what_cannot_go_with_it_is_named(
    model: str, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        make(model, tmp_path, **changes)


def test_the_page_s_script_runs(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "trl.md").read_text()
    (script,) = re.findall(
        r"^```python\n((?:(?!```).)*?drop_in import GRPOTrainer.*?)^```", page, re.M | re.S
    )
    script = script.replace('"Qwen/Qwen3-0.6B"', json.dumps(model))
    (tmp_path / "script.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("script.py", run_name="__main__")
    assert len(list((tmp_path / "out" / "rollouts").iterdir())) == 2
