"""Stock TRL trainers that are handed the same rollouts, for comparison with the seam."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from gfcr.types import Rollout
from tests.integration.trl_script import LEARNING_RATE

Made = Callable[[int], Sequence[Sequence[Rollout]]]


def arguments(folder: Path, *, rollouts: int, size: int, **changes: Any) -> dict[str, Any]:
    """TRL's settings for one update per `rollouts` completions in groups of `size`."""
    return {
        "output_dir": str(folder),
        "max_steps": 2,
        "optim": "sgd",
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "beta": 0.0,
        "per_device_train_batch_size": rollouts // 2,
        "gradient_accumulation_steps": 2,
        "num_generations": size,
        "max_completion_length": 256,
        "shuffle_dataset": False,
        "bf16": False,
        "gradient_checkpointing": False,
        "model_init_kwargs": {"dtype": "float32"},
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    } | changes


def train_stock(trainer: Any) -> torch.Tensor:
    """Trains; returns what changed, all parameters in one vector."""
    trainer.remove_callback(PrinterCallback)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    return torch.cat([(after[n].detach() - before[n]).flatten() for n in sorted(before)])


def stock_grpo(
    model: str, make: Made, *, folder: Path, peft_config: Any = None, **changes: Any
) -> GRPOTrainer:
    """GRPOTrainer with TRL's own `rollout_func`, rewards and advantages."""
    first, calls = make(0), iter(range(1000))

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, Any]:
        flat = [r for group in make(next(calls)) for r in group]
        assert [r.prompt.text for r in flat] == prompts
        return {
            "prompt_ids": [list(r.prompt.tokens) for r in flat],
            "completion_ids": [r.tokens_T.tolist() for r in flat],
            "logprobs": [r.logprobs_T.tolist() for r in flat],
            "env_mask": [r.mask_T.astype(int).tolist() for r in flat],
            "score": [r.reward for r in flat],
        }

    size = len(first[0])
    return GRPOTrainer(
        model=model,
        reward_funcs=lambda score, **_: score,
        args=GRPOConfig(**arguments(folder, rollouts=len(first) * size, size=size, **changes)),
        train_dataset=Dataset.from_dict({"prompt": [g[0].prompt.text for g in first]}),
        rollout_func=rollout_func,
        peft_config=peft_config,
    )


def stock_rloo(model: str, make: Made, *, folder: Path, **changes: Any) -> RLOOTrainer:
    """RLOOTrainer, which has no `rollout_func`: only its sampling is replaced."""
    first = make(0)

    class Fixed(RLOOTrainer):
        calls = 0

        def _generate(self, prompts: list[str]) -> tuple[list[Any], list[Any], list[str]]:
            self.flat = [r for group in make(self.calls) for r in group]
            self.calls += 1
            assert [r.prompt.text for r in self.flat] == prompts
            ids = [r.tokens_T.tolist() for r in self.flat]
            return [list(r.prompt.tokens) for r in self.flat], ids, ["" for _ in ids]

    size = len(first[0])
    trainer = Fixed(
        model=model,
        reward_funcs=lambda **_: [r.reward for r in trainer.flat],
        args=RLOOConfig(**arguments(folder, rollouts=len(first) * size, size=size, **changes)),
        train_dataset=Dataset.from_dict({"prompt": [g[0].prompt.text for g in first]}),
    )
    return trainer
