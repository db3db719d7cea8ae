"""Every honoured setting of a script takes the step that stock TRL takes on the same rollouts.

The drop-in trains on rollouts of the fake engine and stores them; stock TRL is handed those, with
the same reward functions, dataset and `GRPOConfig`. About 25 s; a setting costs about a second.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig
from trl import GRPOTrainer as Stock

from gfcr import seeds
from gfcr.drop_in import GRPOTrainer
from gfcr.tracking.rollouts import read_update
from gfcr.types import Rollout
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_script import relative
from tests.integration.trl_stock import arguments, train_stock
from tests.sample import sample

TOLERANCE = 2e-5
PROMPTS = ["1+2=", "3+4=", "15+6=", "7+8=", "9-8=", "7-6=", "5-44=", "3-2="]
ROWS = {"prompt": PROMPTS, "limit": [3, 9, 5, 7, 4, 8, 6, 2]}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Settings given to both trainers, and what only one of them is told."""

    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    strategy: Any = "grpo"
    stock: dict[str, Any] = field(default_factory=dict[str, Any])
    lora: dict[str, Any] | None = None
    tolerance: float = TOLERANCE

    def given(self) -> dict[str, Any]:
        return {"peft_config": LoraConfig(**self.lora)} if self.lora else {}


def adam(**settings: Any) -> Case:
    # Adam divides by |gradient|, which blows up rounding where the gradient is nearly zero.
    given = {"optim": "adamw_torch", "learning_rate": 1e-3, "adam_epsilon": 1e-4, **settings}
    return Case(settings=given, tolerance=1e-3)


def of_loss(aggregation: str) -> dict[str, Any]:
    return {"name": "grpo", "loss": {"aggregation": aggregation}}


LORA = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}

CASES = {
    "three updates over epochs": Case(settings={"max_steps": 3, "lr_scheduler_type": "linear"}),
    "epochs": Case(settings={"num_train_epochs": 2, "max_steps": -1}),
    "one pass an update": Case(
        settings={"gradient_accumulation_steps": 1, "per_device_train_batch_size": 16}
    ),
    "four passes an update": Case(
        settings={"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4}
    ),
    "generation named": Case(settings={"steps_per_generation": 2}),
    "generation batch named": Case(settings={"generation_batch_size": 16}),
    "groups of eight": Case(settings={"num_generations": 8}),
    "groups of two": Case(settings={"num_generations": 2}),
    "temperature and cap": Case(settings={"temperature": 0.7, "max_completion_length": 9}),
    "weights of rewards": Case(settings={"reward_weights": [0.3, 2.0]}),
    "dr_grpo": Case(strategy="dr_grpo", stock={"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "dr_grpo named": Case(
        settings={"loss_type": "dr_grpo"}, strategy="dr_grpo", stock={"scale_rewards": "none"}
    ),
    "means of rollouts": Case(strategy=of_loss("grpo"), stock={"loss_type": "grpo"}),
    "clip named": Case(
        settings={"epsilon": 0.1, "epsilon_high": 0.3},
        strategy={"name": "grpo", "loss": {"clip_low": 0.1, "clip_high": 0.3}},
    ),
    "two-sided clip": Case(settings={"delta": 1.5}),
    "ratios of sequences": Case(settings={"importance_sampling_level": "sequence"}),
    "ratios of sequences, means": Case(
        settings={"importance_sampling_level": "sequence"},
        strategy=of_loss("grpo"),
        stock={"loss_type": "grpo"},
    ),
    "cispo": Case(
        settings={"loss_type": "cispo", "epsilon_high": 1.2},
        strategy={"name": "cispo", "loss": {"clip_high": 1.2}},
    ),
    "sapo": Case(settings={"loss_type": "sapo"}, strategy="sapo"),
    "one width of the clip": Case(
        settings={"epsilon": 0.1},
        strategy={"name": "grpo", "loss": {"clip_low": 0.1, "clip_high": 0.1}},
    ),
    "cut completions left out": Case(settings={"mask_truncated_completions": True}),
    "stale sequences left out": Case(settings={"off_policy_mask_threshold": 1.1}),
    "KL": Case(settings={"beta": 0.1, "max_steps": 3}),
    "KL without its correction, means": Case(
        settings={"beta": 0.1, "use_bias_correction_kl": False},
        strategy=of_loss("grpo"),
        stock={"loss_type": "grpo"},
    ),
    "KL to a reference that follows": Case(
        settings={
            "beta": 0.5,
            "sync_ref_model": True,
            "ref_model_sync_steps": 1,
            "ref_model_mixup_alpha": 0.5,
            "max_steps": 3,
        }
    ),
    "clipped gradients": Case(settings={"max_grad_norm": 0.05}),
    "cosine": Case(
        settings={
            "lr_scheduler_type": "cosine_with_min_lr",
            "lr_scheduler_kwargs": {"min_lr_rate": 0.3},
            "max_steps": 3,
        }
    ),
    "warm-up": Case(settings={"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1}),
    "adamw": adam(adam_beta1=0.8, adam_beta2=0.9, weight_decay=0.1),
    "adamw, its arguments": adam(optim_args="betas=0.5"),
    "adafactor": Case(settings={"optim": "adafactor", "learning_rate": 1e-3}, tolerance=1e-3),
    "checkpointing": Case(settings={"gradient_checkpointing": True}),
    "checkpointing, reentrant": Case(
        settings={
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": True},
        }
    ),
    "head in float32": Case(settings={"cast_lm_head_to_fp32": True}),
    "no dropout": Case(settings={"disable_dropout": True}),
    "smaller memory": Case(settings={"torch_empty_cache_steps": 1, "use_cache": False}),
    "loading": Case(settings={"model_init_kwargs": {"dtype": "float32", "revision": "main"}}),
    "eager attention": Case(
        settings={"model_init_kwargs": {"dtype": "float32", "attn_implementation": "eager"}}
    ),
    "workers": Case(settings={"dataloader_num_workers": 1, "dataloader_drop_last": True}),
    "no effect in either": Case(
        settings={
            "label_smoothing_factor": 0.3,
            "label_names": ["answer"],
            "train_sampling_strategy": "sequential",
            "average_tokens_across_devices": False,
        }
    ),
    "another seed": Case(settings={"seed": 7}),
    "iterations": Case(settings={"num_iterations": 2, "max_steps": 4, "learning_rate": 0.1}),
    "iterations over epochs": Case(
        settings={"num_iterations": 2, "num_train_epochs": 2, "max_steps": -1, "learning_rate": 0.1}
    ),
    "mini-batches": Case(
        settings={
            "per_device_train_batch_size": 4,
            "steps_per_generation": 4,
            "max_steps": 4,
            "learning_rate": 0.02,  # larger steps magnify the rounding of those before
        }
    ),
    "mini-batches, means, iterations": Case(
        settings={
            "per_device_train_batch_size": 4,
            "generation_batch_size": 16,
            "num_iterations": 2,
            "max_steps": 8,
            "learning_rate": 0.02,
        },
        strategy=of_loss("grpo"),
        stock={"loss_type": "grpo"},
        tolerance=1e-4,  # eight steps, each of which starts from the rounding of those before
    ),
    "LoRA": Case(lora=LORA),
    "LoRA, KL, iterations": Case(
        lora=LORA, settings={"beta": 0.1, "num_iterations": 2, "max_steps": 4}
    ),
    "LoRA of some modules, by rank": Case(
        lora={"r": 4, "use_rslora": True, "target_modules": ["q_proj", "up_proj"]}
    ),
}
ALWAYS = {
    "three updates over epochs",
    "four passes an update",
    "weights of rewards",
    "dr_grpo",
    "ratios of sequences, means",
    "stale sequences left out",
    "KL to a reference that follows",
    "adamw",
    "iterations",
    "mini-batches",
    "LoRA, KL, iterations",
}
"""The sample that every run of the tests tries."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def spread(completions: list[str], limit: list[int], **_: Any) -> list[float | None]:
    """By text and column; some completions have no score of this function's."""
    pairs = zip(completions, limit, strict=True)
    return [None if text.endswith("7") else len(text) % most / most for text, most in pairs]


def ends(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """By tokens, of which the text does not show the end of sequence."""
    return [(ids[-1] == 1) - len(set(ids)) / 9 for ids in completion_ids]


def settings_of(case: Case, folder: Path) -> dict[str, Any]:
    return arguments(folder, rollouts=16, size=4, max_completion_length=14) | case.settings


def train_ours(model: str, folder: Path, case: Case) -> torch.Tensor:
    trainer: Any = GRPOTrainer(
        model,
        reward_funcs=[spread, ends],
        args=GRPOConfig(**settings_of(case, folder)),
        train_dataset=Dataset.from_dict(ROWS),
        strategy=case.strategy,
        engine={"name": "fake"},
        **case.given(),
    )
    return train_stock(trainer)


def stored(folder: Path) -> list[list[Rollout]]:
    """The rollouts of each update, by row."""
    made: list[list[Rollout]] = []
    for path in sorted((folder / "rollouts").glob("update-*.parquet")):
        groups = sorted(read_update(path).groups, key=lambda g: int(g.prompt.id))
        made.append([r for group in groups for r in group.rollouts])
    return made


def train_trl(model: str, folder: Path, case: Case, *, updates: list[list[Rollout]]) -> Any:
    left = iter(updates)

    def replayed(prompts: list[str], trainer: Any) -> dict[str, Any]:
        flat = next(left)
        assert [r.prompt.text for r in flat] == prompts
        return {
            "prompt_ids": [list(r.prompt.tokens) for r in flat],
            "completion_ids": [r.tokens_T.tolist() for r in flat],
            "logprobs": [r.logprobs_T.tolist() for r in flat],
        }

    trainer = Stock(
        model=model,
        reward_funcs=[spread, ends],
        args=GRPOConfig(**settings_of(case, folder) | case.stock),
        train_dataset=Dataset.from_dict(ROWS),
        rollout_func=replayed,
        **case.given(),
    )
    return train_stock(trainer)


def deal_as_gfcr(monkeypatch: pytest.MonkeyPatch, *, seed: int, parts: bool) -> None:
    """TRL deals rows into its passes at random, which matters where these are several steps."""
    batch = iter(range(100))

    def shuffled(held: dict[str, Any]) -> dict[str, Any]:
        order = torch.tensor(seeds.rng(seed, "mini_batches", next(batch)).permutation(16))
        return {k: v[order] if torch.is_tensor(v) and v.ndim else v for k, v in held.items()}

    if parts:
        monkeypatch.setattr("trl.trainer.grpo_trainer.shuffle_sequence_dict", shuffled)


@pytest.mark.parametrize("name", sample(CASES, always=ALWAYS))
def test_the_update_is_trl_s_own(
    model: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    deal_as_gfcr(monkeypatch, seed=case.settings.get("seed", 42), parts="mini" in name)
    ours = train_ours(model, tmp_path / "ours", case)
    updates = stored(tmp_path / "ours")
    theirs = train_trl(model, tmp_path / "theirs", case, updates=updates)
    assert theirs.norm() > 1e-3
    assert relative(ours, theirs) < case.tolerance
