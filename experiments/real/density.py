"""The share of the weights that an update changes, as each dtype that could be served sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from gfcr.stages import Control, Follower

if TYPE_CHECKING:
    import torch

DTYPES: Final = ("float32", "bfloat16", "float16")


@final
@dataclass(kw_only=True)
class Density(Control, Follower):
    """Measures the share of elements that differ between two policies, by dtype.

    That is what a sparse weight delta has to send. It keeps a copy of the policy.
    """

    shares: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """By dtype, of the last update."""

    def __post_init__(self) -> None:
        self._before: dict[str, torch.Tensor] = {}

    def follow(self, weights: "Mapping[str, torch.Tensor]", *, version: int) -> None:
        """See `Follower.follow`."""
        import torch

        if self._before:
            total = sum(w.numel() for w in weights.values())
            for name in DTYPES:
                kind: torch.dtype = getattr(torch, name)
                pairs = (
                    (self._before[n].to(kind), w.detach().to(kind)) for n, w in weights.items()
                )
                self.shares[name] = sum(int((a != b).sum()) for a, b in pairs) / total
        self._before = {n: w.detach().clone() for n, w in weights.items()}

    def metrics(self) -> Mapping[str, float]:
        """The shares, by dtype."""
        return dict(self.shares)
