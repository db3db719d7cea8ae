"""Updates that processes make together: `accelerate launch -m tests.integration.ranks_script`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from gfcr.correction.base import Correction
from gfcr.correction.truncated import Truncated
from gfcr.train.ranks import follow, joined
from gfcr.train.trl import Trl
from gfcr.types import Loss, Sample
from tests.integration.trl_script import (
    Advantages,
    Scripted,
    dr_grpo_advantages,
    groups,
    grpo_advantages,
    plain_sgd,
    rloo_advantages,
    run,
    samples_of,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is trained."""

    loss: Loss = field(default_factory=Loss)
    formula: Advantages = grpo_advantages
    num: Sequence[int] = (13, 16)
    """Samples of each update."""
    correction: Correction | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-6
    """Of the update, relative to its norm."""
    stop_at: int | None = None
    """Updates after which it ends, to go on from the checkpoint."""

    def samples(self, update: int) -> list[Sample]:
        return samples_of(groups(update), formula=self.formula)[: self.num[update]]


ADAM = {"optimizer": "adamw_torch", "learning_rate": 1e-2, "weight_decay": 0.1}
# Where gradients are small: the change of a weight is to be well above the rounding of the weight.
FAST = {"learning_rate": 10.0}
SLOW = {"learning_rate": 0.05}
STEPS = {"mini_batches": 2, "iterations": 2, **SLOW}
LORA = {"lora": {"rank": 4, "alpha": 8}}
CASES = {
    "dapo": Case(),
    "dr_grpo": Case(loss=Loss(aggregation="dr_grpo"), formula=dr_grpo_advantages, settings=FAST),
    "grpo": Case(loss=Loss(aggregation="grpo")),
    "rloo": Case(loss=Loss(estimator="rloo"), formula=rloo_advantages),
    "fewer than processes": Case(num=(1, 3)),
    "fewer than processes, rloo": Case(
        loss=Loss(estimator="rloo"), formula=rloo_advantages, num=(1, 3)
    ),
    "corrected": Case(correction=Truncated(cap=1.5), settings={"learning_rate": 1.0}),
    "corrected, rloo": Case(
        loss=Loss(estimator="rloo"),
        formula=rloo_advantages,
        correction=Truncated(cap=1.5, level="sequence"),
        settings={"learning_rate": 60.0},
        # As of "mini-batches, rloo": the weight is of log-probs that are summed, too.
        tolerance=1e-5,
    ),
    "behaviour": Case(loss=Loss(off_policy="behaviour")),
    "an update of nothing": Case(num=(16, 0, 15), settings=ADAM),
    "stopped and resumed": Case(num=(16, 13, 15), settings=ADAM, stop_at=2),
    "clipped": Case(settings={"max_grad_norm": 0.1, **FAST}),
    "kl": Case(loss=Loss(aggregation="grpo"), settings={"beta": 0.05}),
    "sft": Case(loss=Loss(estimator="sft"), formula=lambda rewards: rewards * 0 + 1),
    "dpo": Case(loss=Loss(estimator="dpo"), num=(6, 10)),
    "iterations": Case(settings={"iterations": 2, **SLOW}),
    "mini-batches": Case(loss=Loss(aggregation="grpo"), settings=STEPS),
    "mini-batches, rloo": Case(
        loss=Loss(estimator="rloo"),
        formula=rloo_advantages,
        settings=STEPS | {"learning_rate": 1e-3},
        # The ratio is of log-probs in single precision, summed to 70: in one process another cut
        # into micro-batches makes 3.6e-6.
        tolerance=1e-5,
    ),
    "mini-batches, sft": Case(
        loss=Loss(estimator="sft"), formula=lambda rewards: rewards * 0 + 1, settings=STEPS
    ),
    "mini-batches, dpo": Case(loss=Loss(estimator="dpo"), num=(6, 10), settings=STEPS),
    "mini-batches, corrected": Case(correction=Truncated(cap=1.5), settings=STEPS),
    "mini-batches without samples": Case(num=(1, 0, 3), settings=STEPS),
    "mini-batches, resumed": Case(
        num=(16, 13, 15), settings=ADAM | {"mini_batches": 2, "save_every": 1}, stop_at=2
    ),
    "lora": Case(settings=LORA),
    "lora, kl": Case(settings=LORA | {"beta": 0.05}),
    "lora, mini-batches": Case(settings=STEPS | LORA),
    "lora, checkpointing": Case(settings=LORA | {"gradient_checkpointing": True}),
    "lora, resumed": Case(num=(16, 13, 15), settings=ADAM | LORA, stop_at=2),
}


def trained(case: Case, *, model: str, folder: Path) -> Scripted:
    """Trains a case in the processes that there are."""
    paired = case.loss.estimator == "dpo"
    make = (lambda n: pairs(case.num[n])) if paired else case.samples
    source = Scripted(make=make)
    asked = {"model": model, "folder": folder, "loss": case.loss, "correction": case.correction}
    for end in (case.stop_at, len(case.num)):
        if end is not None:
            trainer = plain_sgd(**{"max_steps": end, "micro_batches": 2, **case.settings})
            run(trainer, source, **asked)
    return source


@contextmanager
def precise() -> Iterator[None]:
    """Takes double precision where single's rounding is near to the tolerance.

    Several steps of a batch magnify that of the first; Adam divides by gradients that are nearly
    zero; adapters change a merged weight little, as set against the rounding of the weight.
    """
    made = Trl._trainer

    def doubled(self: Trl, job: Any) -> Any:
        trainer = made(self, job)
        if self.steps.number > 1 or self.lora or self.optimizer == "adamw_torch":
            for model in (trainer.model, getattr(trainer, "ref_model", None)):
                if model is not None:
                    model.double()
        return trainer

    with patch.object(Trl, "_trainer", doubled):
        yield


def pairs(num: int) -> list[Sample]:
    """One preferred to another, for `num / 2` prompts."""
    made = groups(num, count=num // 2, size=2)
    return samples_of(made, formula=lambda rewards: rewards * 0 + [1.0, -1.0])


def main(model: str, folder: str, *names: str) -> int:
    """Trains cases, or all; process 0 writes down weights, metrics and the order of calls."""
    with precise():
        return _main(model, folder, *names)


def _main(model: str, folder: str, *names: str) -> int:
    if joined().rank:
        return follow("test")
    Path(folder).mkdir(exist_ok=True)
    for name in names or CASES:
        source = trained(CASES[name], model=model, folder=Path(folder) / name)
        found = {"weights": source.weights, "metrics": source.metrics, "diary": source.diary}
        torch.save(found, Path(folder) / f"{name}.pt")
    joined().tell(None)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
