"""The pipeline that benches of engines run: groups of chain sums, without a trainer."""

from typing import Final

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.engine.base import Engine
from gfcr.pipeline import Pipeline
from gfcr.tasks.base import Task
from gfcr.tasks.codec import HfCodec
from gfcr.types import Sampling

GROUP: Final = 8
"""Rollouts of a prompt."""


def demo_pipeline(
    engine: Engine, *, folder: str, prompts: int, max_tokens: int, seed: int = 0
) -> Pipeline:
    """Batches of so many prompts, on an engine that runs.

    Args:
        engine: with the model of the folder.
        folder: of the model, for its tokenizer.
        prompts: of a batch.
        max_tokens: of a rollout.
        seed: of prompts and samples.
    """
    codec = HfCodec(folder)
    task: Task = registry.build("task", "chain_sum")
    return Pipeline(
        strategies.load("grpo", group_size=GROUP),
        engine=engine,
        task=task,
        train=task.problems(codec).train,
        codec=codec,
        prompts=prompts,
        sampling=Sampling(max_tokens=max_tokens),
        seed=seed,
    )
