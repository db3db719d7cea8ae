"""Gathering of weights that are sharded over processes (FSDP2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gfcr.train.ranks import Ask, Ranks


def whole(model: nn.Module, *, ranks: Ranks) -> Mapping[str, Tensor]:
    """Gathers the policy's weights for rank 0, which calls this; the others `attend` meanwhile.

    Sharded weights are gathered on the CPU, and all processes have finished with it when this
    returns: one still waiting for another while rank 0 waits for a server would hang both.
    """
    if not any(isinstance(p, DTensor) for p in model.parameters()):
        return dict(model.named_parameters())
    ranks.tell(Gather())
    return _gathered(model, ranks=ranks)


@final
@dataclass(frozen=True, slots=True)
class Gather(Ask):
    """Asks every process for its shard of the weights."""

    def answer(self, trainer: Any, *, ranks: Ranks) -> None:
        _gathered(trainer.model, ranks=ranks)


@torch.no_grad()
def _gathered(model: nn.Module, *, ranks: Ranks) -> Mapping[str, Tensor]:
    kept: dict[str, Tensor] = {}
    for name, share in model.named_parameters():
        # Every process takes part in each gather, also one that keeps nothing of it.
        full = share.full_tensor() if isinstance(share, DTensor) else share
        if ranks.leads:
            kept[name] = full.cpu()
    ranks.wait()
    return kept
