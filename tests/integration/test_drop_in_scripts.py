"""Scripts as people publish them train with the drop-in in the place of TRL's trainer.

TRL's own `trl grpo` on vLLM; the others on the fake engine, whose tokens the small chat model's
tokenizer reads. What is logged of a reward is what its function says of the stored completions.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trl
from datasets import Dataset, load_dataset
from trl import GRPOConfig
from trl.rewards import think_format_reward
from trl.scripts import grpo

from gfcr.drop_in import GRPOTrainer
from gfcr.errors import ConfigError
from gfcr.tracking.rollouts import read_update
from gfcr.types import Rollout
from tests import small_chat
from tests.integration.trl_stock import arguments

SYSTEM = "Respond with <reasoning>...</reasoning><answer>...</answer>"
FAKE = {"name": "fake", "alphabet": "".join(map(chr, range(500, 750)))}
"""An engine of about the 256 tokens that are single bytes."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "small"
    small_chat.make(folder)
    return folder


def extract(text: str) -> str:
    return text.split("<answer>")[-1].split("</answer>")[0].strip()


def correctness(prompts: Any, completions: Any, answer: list[str], **_: Any) -> list[float]:
    said = [completion[0]["content"] for completion in completions]
    assert all(turns[0]["content"] == SYSTEM and turns[-1]["role"] == "user" for turns in prompts)
    pairs = zip(said, answer, strict=True)
    return [2.0 if extract(text) == right else -len(text) / 90 for text, right in pairs]


def strict_format(completions: Any, **_: Any) -> list[float]:
    pattern = r"^<reasoning>.*?</reasoning>\s*<answer>.*?</answer>$"
    said = [completion[0]["content"] for completion in completions]
    return [0.5 if re.match(pattern, text) else 0.0 for text in said]


def letters(completions: Any, **_: Any) -> list[float]:
    said = [completion[0]["content"] for completion in completions]
    return [sum(map(str.isalpha, text)) / 30 for text in said]


def questions(small: Path) -> Dataset:
    """GSM8K as the demo scripts prepare it."""
    rows: Any = load_dataset("json", data_files=str(small / "data" / "train.jsonl"), split="train")

    def asked(row: dict[str, str]) -> dict[str, Any]:
        turns = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": row["question"]},
        ]
        return {"prompt": turns, "answer": row["answer"].split("####")[-1].strip()}

    return rows.select(range(16)).map(asked)


def settings(folder: Path, **changes: Any) -> GRPOConfig:
    given = arguments(folder, rollouts=16, size=4, max_completion_length=24, logging_steps=1)
    return GRPOConfig(**given | {"learning_rate": 1e-4} | changes)


def stored(folder: Path) -> list[list[Rollout]]:
    """The rollouts of each update."""
    files = sorted((folder / "rollouts").glob("update-*.parquet"))
    return [[r for g in read_update(file).groups for r in g.rollouts] for file in files]


def rewards_are_recorded(
    log: Sequence[dict[str, Any]],
    *,
    folder: Path,
    rows: Dataset,
    functions: list[Any],
    weights: Sequence[float] | None = None,
) -> None:
    """Asserts that each reward of two updates is what its function says of what is stored."""
    updates, logged = stored(folder), [entry for entry in log if "loss" in entry]
    assert len(updates) == len(logged) == 2 and all(len(made) == 16 for made in updates)
    for made, entry in zip(updates, logged, strict=True):
        given = [rows[int(r.prompt.id)] for r in made]
        columns = {name: [row[name] for row in given] for name in rows.column_names}
        told = [[{"role": "assistant", "content": r.text}] for r in made]
        asked = {"prompts": columns.pop("prompt"), "completions": told, **columns}
        scores = np.array([function(**asked) for function in functions])
        for function, own in zip(functions, scores, strict=True):
            assert entry[f"rewards/{function.__name__}/mean"] == pytest.approx(own.mean(), abs=1e-6)
        total = np.array(weights or [1.0] * len(functions)) @ scores
        assert [r.reward for r in made] == pytest.approx(total, abs=1e-5)
        assert entry["reward"] == pytest.approx(total.mean(), abs=1e-5)


@pytest.mark.vllm
def test_trl_s_own_script(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = questions(small)
    rows.to_json(str(tmp_path / "data" / "train.jsonl"))
    monkeypatch.setattr(trl, "GRPOTrainer", GRPOTrainer)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the script adds the folder it runs in
    out = tmp_path / "out"
    command = f"""--model_name_or_path {small / "model"} --dataset_name {tmp_path / "data"}
        --reward_funcs think_format_reward {__name__}.letters --output_dir {out} --max_steps 2
        --num_generations 4 --per_device_train_batch_size 16 --gradient_accumulation_steps 1
        --max_completion_length 24 --dtype float32 --bf16 false --report_to none
        --logging_steps 1 --save_steps 2 --shuffle_dataset false"""
    grpo.main(*grpo.make_parser().parse_args_and_config(command.split()))
    log = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
    functions = [think_format_reward, letters]
    rewards_are_recorded(log, folder=out, rows=rows, functions=functions)
    assert (out / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("functions", "weights"),
    [([strict_format, correctness], None), ([strict_format, correctness, letters], [0.5, 2.0, -1])],
    ids=["format and correctness", "a weighted mix"],
)
def test_conversations_with_reward_functions(
    small: Path, tmp_path: Path, functions: list[Any], weights: list[float] | None
) -> None:
    rows = questions(small)
    trainer = GRPOTrainer(
        model=str(small / "model"),
        reward_funcs=functions,
        args=settings(tmp_path, reward_weights=weights),
        train_dataset=rows,
        engine=FAKE,
    )
    trainer.train()
    log = trainer.state.log_history
    rewards_are_recorded(log, folder=tmp_path, rows=rows, functions=functions, weights=weights)


def multiply(a: int, b: int) -> int:
    """Multiplies two integers.

    Args:
        a: The first integer.
        b: The second integer.

    Returns:
        The product.
    """
    return a * b


def test_tools_are_refused_with_what_to_do_and_that_trains(small: Path, tmp_path: Path) -> None:
    rows = questions(small)

    def script(**given: Any) -> Any:
        return GRPOTrainer(
            model=str(small / "model"),
            reward_funcs=[letters],
            args=settings(tmp_path),
            train_dataset=rows,
            engine=FAKE,
            **given,
        )

    with pytest.raises(ConfigError, match="tools: use a strategy with a tool, such as multi_turn"):
        script(tools=[multiply])
    trainer = script(strategy={"name": "multi_turn", "max_turns": 3})
    trainer.train()
    rewards_are_recorded(trainer.state.log_history, folder=tmp_path, rows=rows, functions=[letters])
