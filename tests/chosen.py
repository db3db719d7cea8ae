"""Which prompts strategies choose among prompts of known success rates."""

from collections import Counter
from typing import Any

import numpy as np

from gfcr import strategy as strategies
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch

RATES = (0.0, 0.05, 0.3, 0.5, 0.7, 0.95, 1.0)


def run(
    plan: Strategy | str, *, updates: int, num_train: int = 70, prompts: int = 7, **changes: Any
) -> tuple[Pipeline, list[RolloutBatch]]:
    """Updates of a strategy on prompts that are as often of each of `RATES`."""
    task = changes.pop("task", None) or make.CoinTask(rates=RATES, num_train=num_train)
    plan = strategies.load(plan) if isinstance(plan, str) else plan
    changes = {"max_tokens": 12, **changes}
    pipeline = make.pipeline(plan, task=task, prompts=prompts, **changes)
    return pipeline, [pipeline.next_batch() for _ in range(updates)]


def distance(batches: list[RolloutBatch], *, accepted: bool = False) -> float:
    """Mean distance of the true success rates of prompts begun from one half."""
    groups = [g for b in batches for g in (b.accepted if accepted else b.groups)]
    return float(np.mean([abs(float(str(g.prompt.meta["rate"])) - 0.5) for g in groups]))


def uses(batches: list[RolloutBatch]) -> Counter[str]:
    """How often each prompt was asked."""
    return Counter(g.prompt.id for b in batches for g in b.groups)


def same_after_resume(plan: str, *, before: int, after: int, **knobs: Any) -> bool:
    """Whether a resumed run chooses the prompts that it would have chosen."""

    def ids(batches: list[RolloutBatch]) -> list[list[str]]:
        return [[g.prompt.id for g in b.groups] for b in batches]

    _, whole = run(strategies.load(plan, **knobs), updates=before + after)
    first, _ = run(strategies.load(plan, **knobs), updates=before)
    second, _ = run(strategies.load(plan, **knobs), updates=0)
    second.load_state_dict(first.state_dict())
    return ids([second.next_batch() for _ in range(after)]) == ids(whole[before:])
