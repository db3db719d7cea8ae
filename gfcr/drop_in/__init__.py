"""Strategies for TRL scripts that exist: a trainer with any strategy, or a plain `rollout_func`.

from gfcr.drop_in import GRPOTrainer                      # in place of trl's
trainer = GRPOTrainer(..., strategy="dapo")

from gfcr.drop_in import rollout_func
trainer = trl.GRPOTrainer(..., rollout_func=rollout_func("repetition_stop", model=...))
"""

from typing import TYPE_CHECKING, Any

from gfcr.drop_in.rollouts import DropIn, check, rollout_func
from gfcr.process import threads
from gfcr.train.rollout_func import reward

if TYPE_CHECKING:
    from gfcr.drop_in.trainer import GRPOTrainer

__all__ = ["DropIn", "GRPOTrainer", "check", "reward", "rollout_func"]


def __getattr__(name: str) -> Any:
    if name == "GRPOTrainer":
        threads.settle()  # before TRL, which follows, loads torch
        from gfcr.drop_in.trainer import GRPOTrainer

        return GRPOTrainer
    raise AttributeError(f"module 'gfcr.drop_in' has no attribute '{name}'")
