"""What a strategy did in two updates on vLLM, and what shows that it worked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gfcr.pipeline import Pipeline
from gfcr.types import Group, Prompt, RolloutBatch
from tests.integration.demo_floor import mixed


@dataclass(frozen=True, kw_only=True)
class Done:
    """Two updates of a strategy."""

    run: Pipeline
    batches: list[RolloutBatch]

    def metric(self, key: str) -> list[float]:
        return [b.metrics[key] for b in self.batches]

    @property
    def groups(self) -> list[Group]:
        return [g for b in self.batches for g in b.groups]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A strategy's settings at small scale, and what shows that it worked."""

    check: Callable[[Done], None] = lambda done: None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    model: str = "demo"
    """That of `Programs`, or `demo` of chain sums, whose rewards are decided beforehand."""
    prompts: int = 4
    num_train: int = 64
    max_tokens: int = 160
    rate: Callable[[Prompt], float] = mixed
    """The share of a prompt's answers that are right."""
    trains: bool = False
    """Whether it stands for its family in the training test."""
    on_policy: bool = True
