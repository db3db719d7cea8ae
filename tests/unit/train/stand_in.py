"""What the seam reads of a TRL trainer, round a bigram table that is trained by hand."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gfcr.testing import factories as make
from gfcr.types import Cost, RolloutBatch, Sample

VOCAB = 24


class Bigrams(nn.Module):
    """Log-probs of each token by the one before it alone."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(VOCAB, VOCAB, generator=generator))

    def forward(self, ids: Tensor) -> Any:
        """Shapes `(B, N - 1)`, of all tokens after the first."""
        every = self.table.log_softmax(-1)[ids[:, :-1]]
        chosen = every.gather(-1, ids[:, 1:, None])[..., 0]
        return SimpleNamespace(log_probs=chosen, entropy=-(every.exp() * every).sum(-1))


class Trainer:
    """Those attributes of TRL's and transformers' trainers that the seam uses."""

    def __init__(self, *, beta: float = 0.0) -> None:
        self.model, self.ref_model, self.beta = Bigrams(), Bigrams(seed=1), beta
        self.accelerator = SimpleNamespace(
            device=torch.device("cpu"), unwrap_model=lambda model: model
        )
        self.state = SimpleNamespace(global_step=0)
        self.control = SimpleNamespace(should_training_stop=False, should_save=False)
        self.callbacks: list[Any] = []
        self.feed: Any = None
        self.train: Callable[..., None] = lambda **given: None

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def remove_callback(self, callback: Any) -> None:
        self.callbacks = [c for c in self.callbacks if callback not in (c, type(c))]

    def _get_per_token_logps_and_entropies(
        self, model: Any, ids: Tensor, mask: Tensor, width: int, compute_entropy: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        assert mask.shape == ids.shape
        law = model(ids)
        return law.log_probs[:, -width:], law.entropy[:, -width:] if compute_entropy else None


class Source:
    """Hands out batches of these samples, and keeps a diary; None ends the run."""

    def __init__(self, batches: Sequence[Sequence[Sample] | None] = ()) -> None:
        self.batches, self.diary = list(batches), list[Any]()
        self.reported: list[Mapping[str, float]] = []

    def next_batch(self) -> RolloutBatch | None:
        samples = self.batches.pop(0)
        self.diary.append("batch")
        if samples is None:
            return None
        made: dict[str, Any] = {"groups": (), "aborted": (), "cost": Cost(), "metrics": {}}
        return RolloutBatch(step=0, version=0, samples=tuple(samples), **made)

    def sync(self, weights: Any, *, version: int) -> None:
        self.diary.append(("sync", [name for name, _ in weights], version))

    def masked(self, kept: Mapping[str, Any]) -> None:
        self.diary.append({name: mask.tolist() for name, mask in kept.items()})

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        self.diary.append(("updated", step))
        self.reported.append(metrics)

    def state_dict(self) -> dict[str, Any]:
        return {"stream": 3}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise NotImplementedError


def sample(
    index: int,
    *,
    length: int = 4,
    advantage: float | Sequence[float] = 1.0,
    masked: Sequence[int] = (),
    old: float | None = None,
    group: str = "g",
) -> Sample:
    """A rollout whose tokens at `masked` are the environment's."""
    mask_T = np.array([at not in masked for at in range(length)])
    rollout = make.rollout(
        index,
        length=length,
        logprobs=[-0.1 * (at + 1) for at in range(length)],
        mask_T=mask_T,
        group_id=group,
    )
    advantage_T = np.broadcast_to(np.float32(advantage), (length,)) * mask_T
    return Sample(
        rollout=rollout,
        advantage_T=advantage_T.astype(np.float32),
        old_logprobs_T=None if old is None else np.where(mask_T, np.float32(old), np.float32(0)),
    )
